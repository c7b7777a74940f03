"""The loops: from a schedule and a target to the lives of its requests.

    open loop     one sender wakes for each request that is due and starts it; nobody waits for an answer
    closed loop   clients ask, wait, think and ask again

A request that follows another one is sent its think time after that one's end, in both. The run is over when every
line of requests is, at the drain limit, or when it is interrupted; whatever was planned has a life at the end.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from arriero.bench.loops_answers import Answers
from arriero.bench.loops_lines import DRAIN_LIMIT, INTERRUPTED, Lines, never_sent
from arriero.bench.loops_pace import REAL_PACE, Pace
from arriero.bench.loops_senders import send_by_clients, send_by_clock
from arriero.bench.loops_watch import RunWatch
from arriero.bench.schedule import Loop, Schedule
from arriero.bench.target import Target
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRun:
    """What came of a schedule; times in nanoseconds of the run's clock.

    Attributes:
        lives: one for each request that was intended, in the order of the schedule.
        began_at: the start that the schedule counts from.
        stopped_at: from when on nothing more was intended.
        ended_at: when the last line was over.
        interrupted: somebody asked for the end.
        num_left: requests of a supply that no client came to take; they are in no figure.
    """

    lives: tuple[ClientLife, ...]
    began_at: int
    stopped_at: int
    ended_at: int
    interrupted: bool = False
    num_left: int = 0


async def run_schedule(
    target: Target,
    schedule: Schedule,
    pace: Pace = REAL_PACE,
    *,
    answers: Answers | None = None,
    stop: asyncio.Event | None = None,
    watch: RunWatch | None = None,
) -> LoopRun:
    """Run a schedule by its own loop.

    Args:
        target: open already.
        schedule: fixed.
        pace: the clock; the target stamps by the same one.
        answers: hears of the target's answers; needed by a schedule that continues them.
        stop: set by whoever wants the end now; what was measured is kept.
        watch: is told how far the run has come.

    Raises:
        ConfigError: the schedule continues answers that nobody hears of.
    """
    if schedule.continues_answers and answers is None:
        raise ConfigError("this schedule continues real answers; give the target's answers to the run")
    run = Lines(target, schedule, pace, watch or RunWatch(), answers if schedule.continues_answers else None)
    arrivals = send_by_clock(run) if schedule.loop is Loop.OPEN else send_by_clients(run)
    return await _Course(run, arrivals, stop or asyncio.Event()).run()


class _Course:
    """One run from its start to its end: sending, draining, and giving up."""

    def __init__(self, lines: Lines, arrivals: "Coroutine[Any, Any, None]", stop: asyncio.Event) -> None:
        self._lines = lines
        self._arrivals = arrivals
        self._stop = stop

    async def run(self) -> LoopRun:
        lines, schedule = self._lines, self._lines.schedule
        lines.began_at = lines.last_due = lines.pace.clock()
        lines.watch.begin(len(schedule.planned), lines.began_at)
        arrivals = asyncio.ensure_future(self._arrivals)
        finished = asyncio.ensure_future(self._finish(arrivals))
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await self._watch_over(arrivals, finished, stopping)
        finally:
            stopping.cancel()
            arrivals.cancel()
        await finished
        ended_at = lines.pace.clock()
        return self._sum_up(ended_at, interrupted=lines.over_for == INTERRUPTED)

    async def _finish(self, arrivals: asyncio.Future[None]) -> None:
        with suppress(asyncio.CancelledError):
            await arrivals
        await self._lines.tasks.finish()

    async def _watch_over(
        self, arrivals: asyncio.Future[None], finished: asyncio.Future[None], stopping: asyncio.Future[Any]
    ) -> None:
        """Wait for the end; at the drain limit and at an interrupt there is no more waiting."""
        lines = self._lines
        while not finished.done():
            limit = self._drain_limit(arrivals)
            waits: set[asyncio.Future[Any]] = {finished, stopping}
            timer: asyncio.Future[None] | None = None
            if limit is not None:
                timer = asyncio.ensure_future(lines.pace.sleep_until(limit))
                waits.add(timer)
            elif not arrivals.done():
                waits.add(arrivals)
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if timer is not None:
                timer.cancel()
            if stopping.done() and not finished.done():
                arrivals.cancel()
                lines.give_up(INTERRUPTED)
                return
            # Another send may have moved the limit meanwhile.
            limit = self._drain_limit(arrivals)
            if limit is not None and lines.pace.clock() >= limit and not finished.done():
                arrivals.cancel()
                lines.give_up(DRAIN_LIMIT)
                return

    def _drain_limit(self, arrivals: asyncio.Future[None]) -> int | None:
        lines, drain = self._lines, self._lines.schedule.limits.drain_ns
        if drain is None:
            return None
        if lines.ends_at is not None:
            return lines.ends_at + drain
        return lines.last_due + drain if arrivals.done() else None

    def _sum_up(self, ended_at: int, *, interrupted: bool) -> LoopRun:
        lines, schedule = self._lines, self._lines.schedule
        left = [item for item in schedule.planned if item.ask.request_id not in lines.lives]
        num_left = 0
        if schedule.is_supply:
            num_left = len(left)
        else:
            for item in left:
                due = None if item.at_ns is None else lines.began_at + item.at_ns
                lines.lives[item.ask.request_id] = never_sent(item, due, lines.over_for or INTERRUPTED)
        is_exhausted = schedule.loop is Loop.CLOSED and not left
        stopped_at = lines.last_due if lines.ends_at is None or is_exhausted else lines.ends_at
        return LoopRun(
            lives=tuple(lines.lives[i.ask.request_id] for i in schedule.planned if i.ask.request_id in lines.lives),
            began_at=lines.began_at,
            stopped_at=min(stopped_at, ended_at) if interrupted else stopped_at,
            ended_at=ended_at,
            interrupted=interrupted,
            num_left=num_left,
        )
