import pytest

from arriero.core.errors import InvariantViolation
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import Row
from arriero.core.request import BlankTokens, FinishReason, Request, RequestState
from arriero.scheduler.decode_given import DecodeGiven
from arriero.scheduler.progress import Progress


def started(prompt: int, output: int, *, cached: int = 0) -> DecodeGiven:
    request = Request(request_id=RequestId(1), prompt=tuple(range(prompt)), max_tokens=output, arrival_at=0)
    progress = DecodeGiven(request, (1,))
    progress.admit(SequenceId(3), 0, cached)
    return progress


def test_prefill_gives_no_token_and_decode_rows_store_their_own() -> None:
    progress = started(4, 2)
    first = progress.chunk(3)
    assert (first.tokens, first.wants_logits) == ((0, 1, 2), False)
    assert progress.advance(first) is None
    states = [progress.state]
    second = progress.chunk(1)
    assert not second.wants_logits
    assert progress.advance(second) is None
    assert [*states, progress.state] == [RequestState.PREFILLING, RequestState.DECODING]
    row = progress.decode_row()
    assert (row.start, row.token) == (4, 0)
    assert progress.advance(row) is None
    assert progress.append(9) is None
    assert progress.advance(progress.decode_row()) is None
    assert progress.append(9) is FinishReason.LENGTH
    assert (progress.num_computed, progress.num_known) == (6, 6)


def test_without_output_the_end_of_the_prompt_is_the_end() -> None:
    progress = started(2, 0)
    assert progress.count(progress.chunk(2), 1) is FinishReason.LENGTH


def test_an_empty_or_cached_prompt_is_a_chunk_of_no_rows() -> None:
    for progress in (started(0, 1), started(4, 1, cached=4)):
        assert progress.num_reusable == progress.num_prompt
        chunk = progress.chunk(0)
        assert (len(chunk.tokens), chunk.num_rows) == (0, 0)
        assert progress.count(chunk, 1) is None
        assert progress.state is RequestState.DECODING


def test_a_row_counts_several_times() -> None:
    progress = started(2, 5)
    progress.count(progress.chunk(2), 1)
    assert progress.num_allowed - progress.num_known == 5
    assert progress.count(progress.decode_row(), 4) is None
    assert progress.num_allowed - progress.num_known == 1
    assert progress.count(progress.decode_row(), 1) is FinishReason.LENGTH


@pytest.mark.parametrize("kind", [Progress, DecodeGiven])
@pytest.mark.parametrize("times", [1, 3])
def test_several_together_are_each_by_itself(kind: type[Progress], times: int) -> None:
    def group() -> list[Progress]:
        members: list[Progress] = []
        for number, output in enumerate((3, 4, 9, 2)):
            request = Request(request_id=RequestId(number), prompt=(1, 2), max_tokens=output, arrival_at=0)
            progress = kind(request, (number,))
            progress.admit(SequenceId(number), number)
            progress.count(progress.chunk(2), 1)
            members.append(progress)
        return members

    together, alone = group(), group()
    rows = together[0].decode_rows(together)
    assert rows == [each.decode_row() for each in alone]
    ended = together[0].count_together(together, rows, times)
    reasons = [each.count(row, times) for each, row in zip(alone, rows, strict=True)]
    assert [(together.index(each), reason) for each, reason in ended] == [
        (index, reason) for index, reason in enumerate(reasons) if reason is not None
    ]
    assert [(each.num_computed, each.num_known) for each in together] == [
        (each.num_computed, each.num_known) for each in alone
    ]


def test_a_prompt_and_a_decode_row_are_counted_together() -> None:
    first, second = started(2, 1), started(3, 0)
    first.count(first.chunk(2), 1)
    rows: list[Row] = [first.decode_row(), second.chunk(3)]
    assert first.count_together([first, second], rows, 1) == [
        (first, FinishReason.LENGTH),
        (second, FinishReason.LENGTH),
    ]


def test_after_a_preemption_the_answer_is_prompt_too() -> None:
    progress = started(2, 5)
    progress.count(progress.chunk(2), 1)
    progress.count(progress.decode_row(), 3)
    progress.preempt()
    progress.admit(SequenceId(3), 1)
    assert list(progress.chunk(5).tokens) == [0, 1, 0, 0, 0]
    assert progress.count(progress.chunk(5), 1) is None
    assert progress.state is RequestState.DECODING


def test_a_row_that_is_not_the_next_one_is_a_bug() -> None:
    progress = started(3, 1)
    row = progress.chunk(1)
    progress.advance(row)
    with pytest.raises(InvariantViolation, match="row at 0"):
        progress.advance(row)


def test_blank_tokens_have_a_length_and_nothing_else() -> None:
    blank = BlankTokens(2**62)
    assert len(blank) == 2**62
    assert blank[5] == blank[-1] == 0
    assert blank[2:7] == BlankTokens(5)
    assert blank != BlankTokens(5)
    assert blank != (0,)
    assert len({BlankTokens(5), BlankTokens(5)}) == 1
    assert repr(blank[:3]) == "BlankTokens(3)"
    with pytest.raises(IndexError):
        _ = BlankTokens(1)[1]
