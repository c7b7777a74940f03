"""Lives of simulated and of recorded requests, as a client at the server's own clock would note them.

A request is sent when it arrives, and a token comes at the end of its step; nothing is added for a network. Whole
microseconds of a run become the nanoseconds of `ClientLife`, so that everything that is computed for a load generator
is computed in the same way here.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from arriero.core.errors import ArrieroError, CallerError
from arriero.core.events import Finished, Preempted, Rejected
from arriero.core.plan import PrefillChunk
from arriero.core.request import CancelReason, FinishReason, Request
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.sim.asked import Asked
from arriero.sim.simulator import SimulatedStep, Submission

NS_PER_US: Final = 1000
STALLED: Final = "stalled"
NEVER_SENT: Final = "previous_turn_failed"
REFUSED: Final = "queue_full"


class Moments:
    """What happened to one request; whole microseconds.

    Attributes:
        sent_at: None if it never was.
        token_at: of each token, ascending.
        closed_at: None as long as it lives.
        outcome: of one that is over.
        error: a word, or None.
        cached: prompt tokens that it did not compute itself; None before it started.
    """

    __slots__ = ("cached", "closed_at", "error", "outcome", "sent_at", "token_at")

    def __init__(self) -> None:
        """Nothing happened yet."""
        self.sent_at: int | None = None
        self.token_at = array("q")
        self.closed_at: int | None = None
        self.outcome = Outcome.TIMEOUT
        self.error: str | None = STALLED
        self.cached: int | None = None

    def end(self, at: int, outcome: Outcome, error: str | None, num_tokens: int) -> None:
        """It is over, with so many tokens told."""
        self.closed_at, self.outcome, self.error = at, outcome, error
        del self.token_at[num_tokens:]  # an end token takes a row and is not told


class SimulatedLives:
    """Reads the steps of a run as they happen; eight bytes a token."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        """Ids count from 1 in this order."""
        self._asked = asked
        self._moments = [Moments() for _ in asked]
        self.num_preemptions = 0

    def add(self, step: SimulatedStep) -> None:
        """Take over what a step did."""
        for message in step.messages:
            if isinstance(message, Submission):
                self._moments[message.request.request_id - 1].sent_at = int(message.request.arrival_at)
        ends = [int(end) for end in step.ends]
        for row in step.plan.rows if ends else ():
            moments = self._moments[row.request.request_id - 1]
            if moments.cached is None:
                moments.cached = row.start
            if type(row) is not PrefillChunk or row.wants_logits:
                moments.token_at.extend(ends)
        for event in step.events:
            match event:
                case Finished():
                    outcome, error = ending_of(event.reason, event.cancel_reason)
                    moments = self._moments[event.request.request_id - 1]
                    moments.end(int(event.at), outcome, error, event.num_decoded)
                case Rejected(request=request, error=refusal, at=at):
                    outcome = Outcome.ERROR if isinstance(refusal, CallerError) else Outcome.REJECTED
                    self._moments[request.request_id - 1].end(int(at), outcome, _word(refusal), 0)
                case Preempted():
                    self.num_preemptions += 1
                case _:
                    pass

    def refuse(self, request: Request) -> None:
        """It was turned away at the door, at its arrival."""
        moments = self._moments[request.request_id - 1]
        moments.sent_at = int(request.arrival_at)
        moments.end(moments.sent_at, Outcome.REJECTED, REFUSED, 0)

    def lives(self, ended_at: int) -> tuple[ClientLife, ...]:
        """All of them; who is alive yet when the run is over never got what it waited for."""
        return tuple(
            life_of(asked, moments, ended_at) for asked, moments in zip(self._asked, self._moments, strict=True)
        )


def ending_of(reason: FinishReason, cancel_reason: CancelReason | None) -> tuple[Outcome, str | None]:
    """How an end looks to a client."""
    match reason, cancel_reason:
        case FinishReason.LENGTH, _:
            return Outcome.LENGTH, None
        case (FinishReason.STOP, _) | (_, CancelReason.STOP):  # a stop string completes an answer
            return Outcome.STOP, None
        case _, CancelReason.USER | CancelReason.DISCONNECT:
            return Outcome.CANCELLED_BY_CLIENT, None
        case FinishReason.FAILED, _:
            return Outcome.ERROR, str(reason)
        case _:
            return Outcome.CANCELLED_BY_SERVER, str(cancel_reason or reason)


def life_of(asked: Asked, moments: Moments, ended_at: int) -> ClientLife:
    """One request from its moments; `ended_at` is when the run was over."""
    request, sent_at = asked.request, moments.sent_at
    closed_at = ended_at if moments.closed_at is None else moments.closed_at
    num_tokens = len(moments.token_at)
    return ClientLife(
        request_id=asked.name,
        intended_at=_ns(sent_at),
        sent_at=_ns(sent_at),
        closed_at=None if sent_at is None else _ns(closed_at),
        outcome=Outcome.NOT_SENT if sent_at is None else moments.outcome,
        error=NEVER_SENT if sent_at is None else moments.error,
        asked_tokens=request.max_tokens,
        chunk_at=tuple(at * NS_PER_US for at in moments.token_at),
        chunk_tokens=(1,) * num_tokens,
        num_tokens=num_tokens,
        prompt_tokens=len(request.prompt),
        cached_tokens=moments.cached,
        asked_prompt_tokens=len(request.prompt),
        conversation=asked.conversation,
        turn=asked.turn,
    )


def _ns(us: int | None) -> int | None:
    return None if us is None else us * NS_PER_US


def _word(error: ArrieroError) -> str:
    """The class of an error as tables show it: `QueueFull` becomes `queue_full`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type(error).__name__).lstrip("_")
