"""Progress: how far one request has come, and when it is at its end.

A request has tokens known (its prompt, then what was sampled) and tokens computed (those whose KV is present).
A step closes part of the gap. Prefill in chunks, decode and a resume after preemption are one case:

    known     p p p p p p p p g g g       p: prompt, g: generated
    computed  c c c c c c c c c c         one short: the next row is a decode row
    computed  c c c                       five prompt rows and three generated ones to go: prefill
"""

from arriero.core.errors import InvariantViolation
from arriero.core.ids import SequenceId, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import LEGAL_TRANSITIONS, CancelReason, FinishReason, Request, RequestState


class Progress:
    """The mutable half of a request; written by its scheduler only.

    Attributes:
        request: the frozen half.
        state: waiting, prefilling, decoding or finished; moves along `LEGAL_TRANSITIONS` only.
        rank: its place in the policy's order; smaller goes first.
        sequence_id: the slot it holds, or None.
        admission: number of its latest admission; larger is more recent.
        num_computed: leading known tokens whose KV is present.
        cancel_reason: set by a cancel that has not been observed yet.
        was_preempted: whether it held a slot before the present one.
    """

    __slots__ = (
        "_known",
        "admission",
        "cancel_reason",
        "num_computed",
        "rank",
        "request",
        "sequence_id",
        "state",
        "was_preempted",
    )

    def __init__(self, request: Request, rank: tuple[int | float, ...]) -> None:
        """Start waiting, with the prompt known and nothing computed."""
        self.request = request
        self.rank = rank
        self.sequence_id: SequenceId | None = None
        self.admission = -1
        self.num_computed = 0
        self.cancel_reason: CancelReason | None = None
        self.was_preempted = False
        self.state = RequestState.WAITING
        self._known: list[TokenId] = list(request.prompt)

    @property
    def num_known(self) -> int:
        """Prompt tokens and emitted tokens together."""
        return len(self._known)

    @property
    def num_decoded(self) -> int:
        """Emitted tokens."""
        return len(self._known) - len(self.request.prompt)

    @property
    def num_remaining(self) -> int:
        """Known tokens that are not computed yet."""
        return len(self._known) - self.num_computed

    @property
    def num_prompt_remaining(self) -> int:
        """Prompt tokens that are not computed yet."""
        return max(0, len(self.request.prompt) - self.num_computed)

    @property
    def held_sequence(self) -> SequenceId:
        """The slot; only to be asked of a running request."""
        if self.sequence_id is None:
            message = f"request {self.request.request_id} is {self.state} and holds no sequence"
            raise InvariantViolation(message)
        return self.sequence_id

    def admit(self, sequence_id: SequenceId, admission: int) -> None:
        """Take a slot; nothing is computed yet."""
        self._move_to(RequestState.PREFILLING)
        self.sequence_id = sequence_id
        self.admission = admission

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
        return PrefillChunk(self.request, self.held_sequence, self.num_computed, tokens, end == len(self._known))

    def decode_row(self) -> DecodeRow:
        """The last known token as a row of a plan."""
        return DecodeRow(self.request, self.held_sequence, self.num_computed, self._known[-1])

    def advance(self, row: Row) -> None:
        """Count the tokens of a row as computed.

        Raises:
            InvariantViolation: the row is not the next one.
        """
        if row.start != self.num_computed:
            message = f"request {self.request.request_id}: row at {row.start}, computed {self.num_computed}"
            raise InvariantViolation(message)
        self.num_computed += row.num_rows

    def ends_with(self, token: TokenId) -> bool:
        """Whether this token ends the answer without being emitted."""
        return token in self.request.end_tokens and self.num_decoded >= self.request.min_tokens

    def append(self, token: TokenId) -> FinishReason | None:
        """Take a sampled token; returns why this was the last one, or None."""
        if self.state is not RequestState.DECODING:
            self._move_to(RequestState.DECODING)
        self._known.append(token)
        num_decoded = len(self._known) - len(self.request.prompt)
        return FinishReason.LENGTH if num_decoded >= self.request.max_tokens else None

    def _move_to(self, state: RequestState) -> None:
        if state not in LEGAL_TRANSITIONS[self.state]:
            message = f"request {self.request.request_id} cannot go from {self.state} to {state}"
            raise InvariantViolation(message)
        self.state = state
