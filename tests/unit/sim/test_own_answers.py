"""What simulated requests say: what the next turn of their conversation repeats, and else nothing that is known."""

from collections.abc import Sequence

import pytest

from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import BatchPlan, DecodeRow, PrefillChunk, StepShape
from arriero.core.request import Request
from arriero.sim.own_answers import UNKNOWN, KnownAnswers, Turn, answers_in


def turn(number: int, conversation: str | None, index: int, prompt: Sequence[int] | None, most: int = 3) -> Turn:
    return Turn(RequestId(number), conversation, index, prompt, most)


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        ((1, 2, 7, 8, 9, 4), {1: (7, 8, 9)}),
        ((1, 2, 7), {1: (7,)}),  # the answer was shorter than it might have been
        ((1, 2), {}),
        ((1, 3, 7, 8, 9), {}),  # the conversation was cut
        (None, {}),  # of which only the length is known
    ],
)
def test_answer_is_what_the_next_turn_repeats(
    following: tuple[int, ...] | None, expected: dict[int, tuple[int, ...]]
) -> None:
    turns = [turn(2, "a", 1, following), turn(1, "a", 0, (1, 2)), turn(3, None, 0, (1, 2, 5)), turn(4, "b", 0, (1, 2))]
    assert answers_in(turns) == expected


def test_rows_say_what_is_known_and_then_a_token_that_no_prompt_has() -> None:
    request = Request(request_id=RequestId(1), prompt=(1, 2), max_tokens=4, arrival_at=0)
    answers = KnownAnswers({RequestId(1): (7, 8)})

    def said(row: PrefillChunk | DecodeRow) -> dict[SequenceId, TokenId]:
        plan = BatchPlan(step=1, rows=(row,), shape=StepShape(1, 0, 0, 0, 1), events=(), caps_hit=(), num_waiting=0,
                         wake_at=None)  # fmt: skip
        return dict(answers.to(plan).tokens)

    assert said(PrefillChunk(request, SequenceId(0), 0, (1, 2), wants_logits=True)) == {0: 7}
    assert said(PrefillChunk(request, SequenceId(0), 0, (1,), wants_logits=False)) == {}
    assert said(DecodeRow(request, SequenceId(0), 2, 7)) == {0: 8}
    assert said(DecodeRow(request, SequenceId(0), 3, 8)) == {0: UNKNOWN}
