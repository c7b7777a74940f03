from collections.abc import Callable

import pytest

from arriero.core.errors import InvariantViolation
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk
from arriero.core.request import LEGAL_TRANSITIONS, FinishReason, Request, RequestState
from arriero.scheduler.progress import Progress

MOVES: dict[RequestState, Callable[[Progress], object]] = {
    RequestState.WAITING: lambda progress: progress.preempt(),
    RequestState.PREFILLING: lambda progress: progress.admit(SequenceId(1), 1),
    RequestState.DECODING: lambda progress: progress.append(7),
    RequestState.FINISHED: lambda progress: progress.finish(),
}


def progress(max_tokens: int = 8, end_tokens: frozenset[int] = frozenset(), min_tokens: int = 0) -> Progress:
    request = Request(
        request_id=RequestId(1), prompt=(1, 2, 3), max_tokens=max_tokens, arrival_at=0, end_tokens=end_tokens,
        min_tokens=min_tokens,
    )  # fmt: skip
    return Progress(request, (0,))


def progress_in(state: RequestState) -> Progress:
    one = progress()
    if state is not RequestState.WAITING:
        one.admit(SequenceId(0), 0)
    if state is RequestState.DECODING:
        one.append(5)
    if state is RequestState.FINISHED:
        one.finish()
    return one


@pytest.mark.parametrize("after", RequestState)
@pytest.mark.parametrize("before", RequestState)
def test_only_the_moves_of_the_table_are_made(before: RequestState, after: RequestState) -> None:
    one = progress_in(before)
    another_token = before is after is RequestState.DECODING
    if after in LEGAL_TRANSITIONS[before] or another_token:
        MOVES[after](one)
        assert one.state is after
        return
    held, known = one.sequence_id, one.num_known
    with pytest.raises(InvariantViolation, match=f"cannot go from {before}"):
        MOVES[after](one)
    assert (one.state, one.sequence_id, one.num_known) == (before, held, known)


@pytest.mark.parametrize("state", [RequestState.WAITING, RequestState.FINISHED])
def test_a_request_without_a_slot_has_no_sequence_to_name(state: RequestState) -> None:
    with pytest.raises(InvariantViolation, match="holds no sequence"):
        _ = progress_in(state).held_sequence


def test_chunks_and_decode_rows_follow_one_another() -> None:
    one = progress()
    one.admit(SequenceId(4), 0)
    first = one.chunk(2)
    assert first == PrefillChunk(one.request, SequenceId(4), 0, (1, 2), wants_logits=False)
    one.advance(first)
    last = one.chunk(1)
    assert last == PrefillChunk(one.request, SequenceId(4), 2, (3,), wants_logits=True)
    one.advance(last)
    one.append(9)
    assert one.decode_row() == DecodeRow(one.request, SequenceId(4), 3, 9)


def test_a_row_out_of_order_is_refused() -> None:
    one = progress()
    one.admit(SequenceId(4), 0)
    row = one.chunk(2)
    one.advance(row)
    with pytest.raises(InvariantViolation, match="row at 0, computed 2"):
        one.advance(row)
    assert one.num_computed == 2


def test_a_preempted_request_keeps_its_tokens_and_computes_all_of_them_again() -> None:
    one = progress()
    one.admit(SequenceId(0), 0)
    one.advance(one.chunk(3))
    one.append(9)
    one.preempt()
    assert (one.num_known, one.num_decoded, one.num_computed, one.was_preempted) == (4, 1, 0, True)
    one.admit(SequenceId(2), 1)
    assert (one.num_prompt_remaining, one.num_remaining) == (3, 4)
    assert one.chunk(4).tokens == (1, 2, 3, 9)


def test_the_last_token_is_told_by_its_number() -> None:
    one = progress(max_tokens=2)
    one.admit(SequenceId(0), 0)
    assert one.append(5) is None
    assert one.append(5) is FinishReason.LENGTH


def test_end_tokens_are_obeyed_from_min_tokens_on() -> None:
    one = progress(end_tokens=frozenset({7}), min_tokens=1)
    one.admit(SequenceId(0), 0)
    assert not one.ends_with(7)
    one.append(7)
    assert one.ends_with(7)
    assert not one.ends_with(5)
