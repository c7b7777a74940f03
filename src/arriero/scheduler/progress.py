"""Progress: how far one request has come, and when it is at its end.

A request has tokens known (its prompt, then what was sampled) and tokens computed (those whose KV is present).
A step closes part of the gap. Prefill in chunks, decode and a resume after preemption are one case:

    known     p p p p p p p p g g g       p: prompt, g: generated
    computed  c c c c c c c c c c         one short: the next row is a decode row
    computed  c c c                       five prompt rows and three generated ones to go: prefill
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, cast

from arriero.core.errors import InvariantViolation
from arriero.core.ids import SequenceId, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import (
    LEGAL_TRANSITIONS,
    BlankTokens,
    CancelReason,
    FinishReason,
    Request,
    RequestState,
)

_NewRow = Callable[[type[DecodeRow], tuple[Request, SequenceId, int, TokenId]], DecodeRow]
new_row: Final = cast("_NewRow", tuple.__new__)  # pyright: ignore[reportUnknownMemberType] - typeshed: unknown items
"""Makes a named tuple of its fields without its own Python call: there is one for each running request and step."""

UNSAID: Final[TokenId] = -1
"""Stands for a token of an answer that is only counted."""


class Progress:
    """The mutable half of a request; written by its scheduler only.

    Attributes:
        request: the frozen half.
        state: waiting, prefilling, decoding or finished; moves along `LEGAL_TRANSITIONS` only.
        rank: its place in the policy's order; smaller goes first.
        sequence_id: the slot it holds, or None.
        admission: number of its latest admission; larger is more recent.
        num_computed: leading known tokens whose KV is present.
        num_known: prompt tokens and emitted tokens together.
        num_prompt: prompt tokens.
        num_allowed: known tokens with which the allowed output is used up.
        lag: tokens that a decoding request is behind between two steps; the same for all of a class.
        cancel_reason: set by a cancel that has not been observed yet.
        was_preempted: whether it held a slot before the present one.
    """

    __slots__ = (
        "_known",
        "admission",
        "cancel_reason",
        "num_allowed",
        "num_computed",
        "num_known",
        "num_prompt",
        "rank",
        "request",
        "sequence_id",
        "state",
        "was_preempted",
    )

    lag: ClassVar[int] = 1

    def __init__(self, request: Request, rank: tuple[int | float, ...]) -> None:
        """Start waiting, with the prompt known and nothing computed."""
        self.request = request
        self.rank = rank
        self.sequence_id: SequenceId | None = None
        self.admission = -1
        self.num_computed: int = 0
        self.cancel_reason: CancelReason | None = None
        self.was_preempted = False
        self.state = RequestState.WAITING
        self.num_prompt: int = len(request.prompt)
        self.num_known: int = self.num_prompt
        self.num_allowed: int = self.num_prompt + request.max_tokens
        self._known = self._first_known()

    @property
    def num_decoded(self) -> int:
        """Emitted tokens."""
        return self.num_known - self.num_prompt

    @property
    def num_remaining(self) -> int:
        """Known tokens that are not computed yet."""
        return self.num_known - self.num_computed

    @property
    def num_prompt_remaining(self) -> int:
        """Prompt tokens that are not computed yet."""
        return max(0, self.num_prompt - self.num_computed)

    @property
    def known(self) -> Sequence[TokenId]:
        """The known tokens, not to be changed; where answers are only counted, those of the prompt."""
        return self._known

    @property
    def computed(self) -> Sequence[TokenId] | None:
        """The tokens whose KV is present, from the first one on, as far as anybody said them; None if none are known.

        O(computed).
        """
        if isinstance(self.request.prompt, BlankTokens):
            return None
        tokens = self._known[: self.num_computed]
        return tokens[: self.num_prompt] if tokens and tokens[-1] == UNSAID else tokens

    @property
    def num_reusable(self) -> int:
        """Leading known tokens that may come from a cache: the last one must be computed for its logits."""
        return self.num_known - self.lag

    @property
    def held_sequence(self) -> SequenceId:
        """The slot; only to be asked of a running request."""
        if self.sequence_id is None:
            message = f"request {self.request.request_id} is {self.state} and holds no sequence"
            raise InvariantViolation(message)
        return self.sequence_id

    def admit(self, sequence_id: SequenceId, admission: int, num_cached: int = 0) -> None:
        """Take a slot, in which `num_cached` tokens are computed already."""
        self._move_to(RequestState.PREFILLING)
        self.sequence_id = sequence_id
        self.admission = admission
        self.num_computed = num_cached

    def move(self, sequence_id: SequenceId) -> None:
        """Go on in another slot, to which everything computed was moved."""
        self.sequence_id = sequence_id

    def preempt(self) -> None:
        """Lose the slot and what was computed; the tokens stay known."""
        self._move_to(RequestState.WAITING)
        self.sequence_id = None
        self.num_computed = 0
        self.was_preempted = True

    def finish(self) -> None:
        """Reach the end."""
        self._move_to(RequestState.FINISHED)
        self.sequence_id = None

    def chunk(self, num_rows: int) -> PrefillChunk:
        """The next `num_rows` known tokens as a row of a plan."""
        end = self.num_computed + num_rows
        tokens = tuple(self._known[self.num_computed : end])
        return PrefillChunk(self.request, self.held_sequence, self.num_computed, tokens, end == self.num_known)

    def decode_row(self) -> DecodeRow:
        """The last known token as a row of a plan."""
        return new_row(DecodeRow, (self.request, self.held_sequence, self.num_computed, self._known[-1]))

    @staticmethod
    def decode_rows(group: Sequence["Progress"]) -> list[DecodeRow]:
        """What `decode_row` gives for each of several, which are of this class."""
        return [each.decode_row() for each in group]

    def advance(self, row: Row) -> FinishReason | None:
        """Count the tokens of a row as computed; returns why the request has ended with them, or None.

        Raises:
            InvariantViolation: the row is not the next one.
        """
        if row.start != self.num_computed:
            message = f"request {self.request.request_id}: row at {row.start}, computed {self.num_computed}"
            raise InvariantViolation(message)
        self.num_computed += row.num_rows
        return None

    def count(self, row: Row, times: int) -> FinishReason | None:
        """A row was computed, a decode row `times` in a row, and nobody says which tokens it gave.

        Returns why the last one was the last, or None.
        """
        reason = self.advance(row)
        if reason is not None or not row.wants_logits:
            return reason
        if self.state is not RequestState.DECODING:
            self._move_to(RequestState.DECODING)
        self._known += (UNSAID,) * times
        self.num_computed += times - 1
        self.num_known += times
        return FinishReason.LENGTH if self.num_known >= self.num_allowed else None

    @staticmethod
    def count_together(
        group: Sequence["Progress"], rows: Sequence[Row], times: int
    ) -> list[tuple["Progress", FinishReason]]:
        """What `count` says of each of several, which are of this class; only those that have ended."""
        reasons = [(each, each.count(row, times)) for each, row in zip(group, rows, strict=True)]
        return [(each, reason) for each, reason in reasons if reason is not None]

    def ends_with(self, token: TokenId) -> bool:
        """Whether this token ends the answer without being emitted."""
        return token in self.request.end_tokens and self.num_decoded >= self.request.min_tokens

    def append(self, token: TokenId) -> FinishReason | None:
        """Take a sampled token; returns why this was the last one, or None."""
        if self.state is not RequestState.DECODING:
            self._move_to(RequestState.DECODING)
        self._known.append(token)
        self.num_known += 1
        return FinishReason.LENGTH if self.num_known >= self.num_allowed else None

    def _first_known(self) -> list[TokenId]:
        """The known tokens at the start."""
        return list(self.request.prompt)

    def _move_to(self, state: RequestState) -> None:
        if state not in LEGAL_TRANSITIONS[self.state]:
            message = f"request {self.request.request_id} cannot go from {self.state} to {state}"
            raise InvariantViolation(message)
        self.state = state
