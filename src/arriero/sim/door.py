"""The door of a server in virtual time: the same books say who is let in, at the moment of each arrival.

A live door decides while a decode call runs, and the simulator hands messages over between two steps. So what a step
has changed is noted with its time, and told to the books in the order of time among the arrivals: who came before the
end of a step finds those who ended with it still inside.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import UnsetType

from arriero.core.errors import Refused
from arriero.core.events import Admitted, Event, Finished, Rejected
from arriero.core.ids import RequestId, Time
from arriero.core.request import Request
from arriero.record.simulation_config import Limits
from arriero.scheduler.backlog import Backlog, BacklogLimits, Ticket
from arriero.sim.simulator import Inbox, Message, SimulatedStep, Submission

_CHANGES: Final = (Admitted, Finished, Rejected)


@dataclass(frozen=True, slots=True)
class Turned:
    """A request that was refused on arrival, and why."""

    request: Request
    reason: str


class GuardedInbox:
    """An inbox before which a door stands; it is told the steps of the run by `follow`.

    Attributes:
        refused: who was not let in, in the order of arrival.
    """

    def __init__(self, inbox: Inbox, limits: BacklogLimits) -> None:
        """Nobody is inside."""
        self.refused: list[Turned] = []
        self._inbox = inbox
        self._backlog = Backlog(limits)
        self._tickets: dict[RequestId, Ticket] = {}  # of those inside
        self._owners: dict[int, RequestId] = {}  # by ticket, the same
        self._changes: deque[Admitted | Finished | Rejected] = deque()  # by time
        self._has_queue = False

    def due(self, now: Time) -> Sequence[Message]:
        """Take what is due and let in."""
        taken = [message for message in self._inbox.due(now) if self._lets_in(message)]
        self._catch_up(now)
        return taken

    def next_at(self) -> Time | None:
        """When the next message is due, let in or not."""
        return self._inbox.next_at()

    def follow(self, steps: Iterable[SimulatedStep]) -> Iterator[SimulatedStep]:
        """Pass the steps on, and note what they changed."""
        for step in steps:
            self._changes.extend(event for event in step.events if isinstance(event, _CHANGES))
            self._has_queue = step.plan.num_waiting > 0
            yield step

    def _lets_in(self, message: Message) -> bool:
        if not isinstance(message, Submission):
            return True
        request = message.request
        self._catch_up(request.arrival_at)
        try:
            ticket = self._backlog.enter(
                tokens=len(request.prompt), start_by=request.start_by, has_queue=self._has_queue
            )
        except Refused as error:
            self.refused.append(Turned(request, str(error)))
            return False
        self._tickets[request.request_id] = ticket
        self._owners[ticket.number] = request.request_id
        return True

    def _catch_up(self, at: Time) -> None:
        """Bring the books to this moment."""
        while self._changes and self._changes[0].at <= at:
            change = self._changes.popleft()
            self._expire(change.at)
            self._change(change)
        self._expire(at)

    def _change(self, event: Event) -> None:
        match event:
            case Admitted(request=request) if request.request_id in self._tickets:
                self._backlog.start(self._tickets[request.request_id])
            case Finished(request=request) | Rejected(request=request):
                self._leave(request.request_id)
            case _:
                pass

    def _expire(self, now: Time) -> None:
        """Who has waited for long enough is answered at once, and gives its place back."""
        for ticket in self._backlog.expire(now):
            self._leave(self._owners[ticket.number])

    def _leave(self, request_id: RequestId) -> None:
        ticket = self._tickets.pop(request_id, None)
        if ticket is not None:
            del self._owners[ticket.number]
            self._backlog.leave(ticket)


def door_of(limits: Limits) -> BacklogLimits | None:
    """The bounds of a configuration, or None where everybody is let in."""
    backlog = None if isinstance(limits.backlog, UnsetType) else limits.backlog
    tokens = None if isinstance(limits.backlog_tokens, UnsetType) else limits.backlog_tokens
    if backlog is None and tokens is None:
        return None
    return BacklogLimits(sequences=limits.sequences, waiting=backlog, waiting_tokens=tokens)
