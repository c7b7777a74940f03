"""Runs a leg: clients, moments, slow readers and the neighbour at once; then everything is drained.

Nothing here raises for what the server does: each request that is handed over comes back as a life with an end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from arriero.bench.ask import Ask
from arriero.bench.loops_pace import Pace
from arriero.bench.neighbour import Visit
from arriero.bench.soak.plan import Kind, Leg, Moment, Stay, asks_of_client
from arriero.bench.soak.settings import SoakSettings
from arriero.bench.target import Target
from arriero.metrics.client_life import ClientLife, Outcome

ReadSlowly: TypeAlias = Callable[[Ask], Awaitable[ClientLife]]
DRAIN_LIMIT: Final = "drain_limit"
_NS: Final = 1_000_000_000


class Neighbour(Protocol):
    """Somebody who keeps a CPU busy."""

    def start(self) -> None:
        """Be busy from now on."""
        ...

    def stop(self) -> Visit | None:
        """Be busy no longer; None if it was not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What a leg is run with.

    Attributes:
        target: asks the server; open.
        read_slowly: asks it and takes its time; has a limit of its own.
        neighbour: comes and goes.
        pace: the clock of all of them.
    """

    target: Target
    read_slowly: ReadSlowly
    neighbour: Neighbour
    pace: Pace


@dataclass(slots=True)
class LegRun:
    """What came of a leg; moments in nanoseconds of the pace's clock.

    Attributes:
        lives: each request as it ended, with its kind.
        num_asked: requests that were handed over.
        visits: the neighbour's, as they were.
        stays: the same, from when to when.
        began_at, ended_at: the begin, and the end of the last answer.
    """

    lives: list[tuple[Kind, ClientLife]] = field(default_factory=list[tuple[Kind, ClientLife]])
    num_asked: int = 0
    visits: list[Visit] = field(default_factory=list[Visit])
    stays: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    began_at: int = 0
    ended_at: int = 0

    @property
    def seconds(self) -> float:
        """Of all of it."""
        return (self.ended_at - self.began_at) / _NS


async def run_leg(settings: SoakSettings, leg: Leg, hands: Hands) -> LegRun:
    """Run a leg to its end; what is open when the time to drain is over is given up, and stands in the lives."""
    course = _Course(settings, leg, hands)
    work = asyncio.ensure_future(course.run())
    limit_at = course.run_so_far.began_at + round((leg.send_s + settings.drain_s) * _NS)
    limit = asyncio.ensure_future(hands.pace.sleep_until(limit_at))
    ends: set[asyncio.Future[None]] = {work, limit}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            hands.target.give_up(DRAIN_LIMIT)
        await work
    finally:
        limit.cancel()
        work.cancel()
        hands.neighbour.stop()
    found = course.run_so_far
    found.ended_at = hands.pace.clock()
    return found


class _Course:
    """One leg under way."""

    def __init__(self, settings: SoakSettings, leg: Leg, hands: Hands) -> None:
        self._settings = settings
        self._leg = leg
        self._hands = hands
        self.run_so_far = LegRun(began_at=hands.pace.clock())

    async def run(self) -> None:
        """All of it; over when the last answer is."""
        async with asyncio.TaskGroup() as group:
            for client in range(self._settings.load.clients):
                group.create_task(self._client(client))
            for moment in self._leg.moments:
                group.create_task(self._moment(moment))
            for stay in self._leg.stays:
                group.create_task(self._stay(stay))

    async def _client(self, client: int) -> None:
        """One request after the other, as long as requests are sent."""
        clock = self._hands.pace.clock
        ends_at = self._at(self._leg.send_s)
        for kind, ask, think_s in asks_of_client(self._settings, self._leg.number, client):
            if clock() >= ends_at:
                return
            life = await self._ask(kind, ask)
            is_refused = life.outcome is Outcome.REJECTED
            pause_s = self._settings.load.retry_ms / 1e3 if is_refused else think_s
            await self._hands.pace.sleep_until(min(ends_at, clock() + round(pause_s * _NS)))

    async def _moment(self, moment: Moment) -> None:
        await self._hands.pace.sleep_until(self._at(moment.at_s))
        async with asyncio.TaskGroup() as group:
            for ask in moment.asks:
                group.create_task(self._ask(moment.kind, ask))

    async def _stay(self, stay: Stay) -> None:
        pace, neighbour = self._hands.pace, self._hands.neighbour
        await pace.sleep_until(self._at(stay.from_s))
        came_at = pace.clock()
        neighbour.start()
        await pace.sleep_until(self._at(stay.to_s))
        visit = neighbour.stop()
        self.run_so_far.stays.append((came_at, pace.clock()))
        if visit is not None:
            self.run_so_far.visits.append(visit)

    async def _ask(self, kind: Kind, ask: Ask) -> ClientLife:
        run = self.run_so_far
        run.num_asked += 1
        hands = self._hands
        life = await (hands.read_slowly(ask) if kind is Kind.SLOW else hands.target.ask(ask, None))
        run.lives.append((kind, life))
        return life

    def _at(self, seconds: float) -> int:
        return self.run_so_far.began_at + round(seconds * _NS)
