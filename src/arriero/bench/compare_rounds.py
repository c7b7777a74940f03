"""The rounds of one cell: warm-up, A against itself, A against B, and the first prompts once more.

    warm_up   each server that was just started, before anything counts
    aa        the first side against itself: what two equal things differ by here and now
    ab        the comparison
    check     the warm-up's prompts again, so that answers can be compared over the whole run; in no figure

Nothing is decided here; what was measured when a server failed or somebody stopped it is kept.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from arriero.bench.compare_metrics import CompareMetric
from arriero.bench.compare_sides import Stand
from arriero.bench.compare_texts import Texts
from arriero.bench.rounds import Side
from arriero.bench.runner import Driver
from arriero.bench.schedule import Schedule
from arriero.bench.servers import ServerFailed
from arriero.bench.servers_usage import Usage
from arriero.metrics.client_life import ClientLife
from arriero.record.bench_compare_parts import Round
from arriero.record.bench_parts import Point

Phase: TypeAlias = Literal["warm_up", "aa", "ab", "check"]


class Reading(NamedTuple):
    """What an instrument says about one run of one schedule."""

    point: Point
    lives: tuple[ClientLife, ...]  # with the hashes of their texts, whether the point keeps them or not
    interrupted: bool


class Instrument(Protocol):
    """Runs a schedule and measures it; in tests something that knows its answer."""

    async def read(self, driver: Driver, schedule: Schedule) -> Reading:
        """Run and measure."""
        ...


class Interrupted(Exception):
    """Somebody wants the end; what was measured is kept."""


Tell: TypeAlias = Callable[[Round], None]


class Rounds:
    """Measures rounds and keeps them, in the order of running."""

    def __init__(
        self,
        stand: Stand,
        instrument: Instrument,
        metrics: Sequence[CompareMetric],
        warm_up: Schedule,
        tell: Tell = lambda _: None,
    ) -> None:
        """Measure nothing yet."""
        self._stand = stand
        self._instrument = instrument
        self._metrics = metrics
        self._warm_up = warm_up
        self._tell = tell
        self.measured: list[Round] = []
        self.texts = {side: Texts() for side in Side}

    async def warm(self, side: Side) -> None:
        """Bring a side up and warm it, unless it is warm.

        Raises:
            ServerFailed: it does not start, ended, or answered nothing. Interrupted: somebody wants the end.
        """
        driver, is_fresh = await self._stand.at(side)
        if is_fresh:
            await self._measure("warm_up", None, side, side, driver, self._warm_up)

    async def pairs(
        self, phase: Phase, order: Sequence[Side], schedules: Sequence[Schedule], only: Side | None = None
    ) -> None:
        """Measure pairs in an order.

        Args:
            phase: what they are for.
            order: two sides a pair.
            schedules: one for each of them.
            only: the server that both sides are, in an A/A phase.

        Raises:
            ServerFailed, Interrupted: see `warm`.
        """
        for number, (side, schedule) in enumerate(zip(order, schedules, strict=True)):
            await self.one(phase, number // 2, side, schedule, only or side)

    async def one(self, phase: Phase, pair: int | None, side: Side, schedule: Schedule, server: Side) -> Round:
        """Measure one round on a warm server.

        Raises:
            ServerFailed, Interrupted: see `warm`.
        """
        driver, is_fresh = await self._stand.at(server)
        if is_fresh:
            await self._measure("warm_up", None, server, server, driver, self._warm_up)
        return await self._measure(phase, pair, side, server, driver, schedule)

    async def check(self, sides: Sequence[Side] = tuple(Side)) -> None:
        """Ask the warm-up's prompts once more.

        Raises:
            ServerFailed, Interrupted: see `warm`.
        """
        for side in sides:
            await self.one("check", None, side, self._warm_up, side)

    async def _measure(
        self, phase: Phase, pair: int | None, side: Side, server: Side, driver: Driver, schedule: Schedule
    ) -> Round:
        before, began_at = self._usages(), time.monotonic()
        reading = await self._instrument.read(driver, schedule)
        seconds, after = time.monotonic() - began_at, self._usages()
        found = Round(
            index=len(self.measured),
            phase=phase,
            pair=pair,
            side=side.value,
            values={metric.name: metric.read(reading.point.summary) for metric in self._metrics},
            point=reading.point,
            server_cores=_cores(before[server], after[server], seconds),
            idle_cores=_cores(before[server.other], after[server.other], seconds),
        )
        self.measured.append(found)
        self.texts[server].note(_answers(schedule, reading.lives))
        self._tell(found)
        self._stand.require_alive(server, f"in phase {phase}, round {len(self.measured)}")
        if reading.interrupted:
            raise Interrupted
        if reading.lives and not any(life.outcome.is_normal for life in reading.lives):
            first = next((life.error for life in reading.lives if life.error is not None), "no reason given")
            raise ServerFailed(
                f"{self._stand.name(server)}: not one of {len(reading.lives)} requests ended well; {first}"
            )
        return found

    def _usages(self) -> dict[Side, Usage | None]:
        return {side: self._stand.usage(side) for side in Side}


def _answers(schedule: Schedule, lives: Sequence[ClientLife]) -> dict[str, str]:
    """Whole answers only: one that was cut has another hash for a good reason."""
    return {
        f"{schedule.sha256[:12]}/{life.request_id}": life.text_sha256
        for life in lives
        if life.outcome.is_normal and life.text_sha256 is not None
    }


def _cores(before: Usage | None, after: Usage | None, seconds: float) -> float | None:
    if before is None or after is None or seconds <= 0:
        return None
    return (after.cpu_s - before.cpu_s) / seconds
