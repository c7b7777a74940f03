"""KnownAnswers: what simulated requests say, as far as it can be reused.

Reuse looks at tokens, those of answers included: the next turn of a conversation begins with the last prompt and its
answer. What it repeats there is taken for what was said; everything else is a token that no prompt has.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import BatchPlan, Row, Sampled
from arriero.scheduler.progress import UNSAID

UNKNOWN: Final[TokenId] = UNSAID - 1
"""Stands for every token of which nothing is known but that it was said, so that it is kept; in no prompt."""


class Turn(NamedTuple):
    """One request of a conversation.

    Attributes:
        request_id: as the scheduler knows it.
        conversation: which one; None for a request of its own.
        turn: its number there.
        prompt: its tokens; None if only their number is known.
        max_tokens: of its answer.
    """

    request_id: RequestId
    conversation: str | None
    turn: int
    prompt: Sequence[TokenId] | None
    max_tokens: int


class KnownAnswers:
    """Answers whose beginnings are known; every row succeeds."""

    def __init__(self, known: Mapping[RequestId, Sequence[TokenId]]) -> None:
        """`known` is what requests say; of those that are not there nothing is known."""
        self._known = known

    def to(self, plan: BatchPlan) -> Sampled:
        """The outcome of one plan with rows."""
        tokens: dict[SequenceId, TokenId] = {
            row.sequence_id: self._token(row) for row in plan.rows if row.wants_logits
        }  # fmt: skip
        return Sampled(tokens=tokens)

    def _token(self, row: Row) -> TokenId:
        answer = self._known.get(row.request.request_id, ())
        index = row.start + row.num_rows - len(row.request.prompt)
        return answer[index] if index < len(answer) else UNKNOWN


def answers_in(turns: Iterable[Turn]) -> dict[RequestId, tuple[TokenId, ...]]:
    """What each request says, from the prompt of the turn after it; as long as that repeats it.

    A next prompt that does not begin with this one, since its conversation was cut, says nothing.
    """
    conversations: dict[str, list[Turn]] = {}
    for each in turns:
        if each.conversation is not None and each.prompt is not None:
            conversations.setdefault(each.conversation, []).append(each)
    found: dict[RequestId, tuple[TokenId, ...]] = {}
    for members in conversations.values():
        members.sort(key=lambda each: each.turn)
        for one, following in pairwise(members):
            answer = _repeated(one, following.prompt or ())
            if answer:
                found[one.request_id] = answer
    return found


def _repeated(one: Turn, following: Sequence[TokenId]) -> tuple[TokenId, ...]:
    prompt = tuple(one.prompt or ())
    begin = tuple(following[: len(prompt) + one.max_tokens])
    return begin[len(prompt) :] if begin[: len(prompt)] == prompt else ()
