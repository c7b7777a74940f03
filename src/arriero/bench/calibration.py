"""Calibration: what the instrument adds, measured before a run against a server with known delays.

Each sample is a difference of two durations of the same request: as the client stamped it, and as the null server
stamped it on its own clock. It holds the way through both network stacks, the wake-up of the client's event loop and
everything the client does before it stamps. The figures are printed and never subtracted.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec

from arriero.bench.ask import Ask
from arriero.bench.client import HttpTarget
from arriero.bench.loop_watch import LoopReport, LoopWatch, quiet_collector
from arriero.bench.loops_pace import REAL_PACE, Pace
from arriero.bench.null_server_options import NullOptions
from arriero.bench.null_server_process import null_server
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife
from arriero.metrics.quantiles import nearest_rank

TIMES_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationOptions:
    """The load of a calibration: light, so that it shows the instrument at rest.

    Attributes:
        num_requests: at least 100, below which a p99 says nothing.
        num_chunks: at least 2, so that there are gaps.
    """

    num_requests: int = 100
    rate_per_s: float = 100.0
    first_s: float = 0.05
    gap_s: float = 0.01
    num_chunks: int = 8

    @property
    def server(self) -> NullOptions:
        """What the null server is to do."""
        return NullOptions(first_s=self.first_s, gap_s=self.gap_s, num_chunks=self.num_chunks, keeps_times=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """By how much durations come out longer at the client than at the server, in nanoseconds.

    Attributes:
        n: samples.
        median_ns, p99_ns, max_ns: nearest rank; a gap's may be negative.
        jitter_ns: 99 % of the samples lie no further from the median than this.
    """

    n: int
    median_ns: int
    p99_ns: int
    max_ns: int
    jitter_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the instrument adds.

    Attributes:
        first_ns, gap_ns: what the server was told to wait; its own timers are good for a millisecond.
        told_first_ns: median of what it really waited before the first chunk, by its own clock.
        ttft, gap: what the client adds to the server's own durations.
        send_lag_p99_ns: how late the client sent.
        num_failed: requests that did not end normally; they are in no other figure.
        loop: how long the client's event loop was blocked.
    """

    first_ns: int
    gap_ns: int
    told_first_ns: int
    ttft: Offset
    gap: Offset
    send_lag_p99_ns: int
    num_failed: int
    loop: LoopReport


async def calibrate(options: CalibrationOptions | None = None, *, pace: Pace = REAL_PACE) -> Calibration:
    """Measure the client of this process against a null server in another one; takes a few seconds.

    Raises:
        ConfigError: the null server did not start, or did not answer.
    """
    options = CalibrationOptions() if options is None else options
    async with null_server(options.server) as url:
        target = HttpTarget(url, clock=pace.clock)
        try:
            await target.open()
            return await calibrate_on(target, options, pace)
        finally:
            await target.close()


async def calibrate_on(target: HttpTarget, options: CalibrationOptions, pace: Pace) -> Calibration:
    """The same against a null server that is there already and does as `options.server` says.

    Raises:
        ConfigError: it answered nothing.
    """
    with quiet_collector():
        async with LoopWatch(pace.clock) as watch:
            lives = await _load(target, options, pace)
    page = await target.fetch("/times", TIMES_S)
    told = msgspec.json.decode(page.body, type=dict[str, list[int]]) if page.status is not None else {}
    good = [
        life for life in lives if life.outcome.is_normal and len(told.get(life.request_id, ())) == len(life.chunk_at)
    ]
    if not good:
        words = sorted({life.error or life.outcome for life in lives})
        raise ConfigError(f"calibration: no answer of the null server could be used ({', '.join(words)})")
    lags = sorted(_lag(life) for life in good)
    return Calibration(
        first_ns=round(options.first_s * 1e9),
        gap_ns=round(options.gap_s * 1e9),
        told_first_ns=nearest_rank(sorted(told[life.request_id][0] for life in good), 0.5),
        ttft=_offset([_ttft_offset(life, told[life.request_id]) for life in good]),
        gap=_offset([each for life in good for each in _gap_offsets(life, told[life.request_id])]),
        send_lag_p99_ns=nearest_rank(lags, 0.99),
        num_failed=len(lives) - len(good),
        loop=watch.report(),
    )


async def _load(target: HttpTarget, options: CalibrationOptions, pace: Pace) -> list[ClientLife]:
    """A request every so often, whatever becomes of the others; one more before them opens the way."""
    await target.ask(_ask("warm-up", options), None)
    start_at = pace.clock()
    asks: list[asyncio.Task[ClientLife]] = []
    for number in range(options.num_requests):
        due_at = start_at + round(number / options.rate_per_s * 1e9)
        await pace.sleep_until(due_at)
        asks.append(asyncio.create_task(target.ask(_ask(f"calibration-{number}", options), due_at)))
    return list(await asyncio.gather(*asks))


def _ask(request_id: str, options: CalibrationOptions) -> Ask:
    return Ask(request_id=request_id, prompt=(1,), max_tokens=options.num_chunks)


def _lag(life: ClientLife) -> int:
    assert life.sent_at is not None, "it has an answer"
    assert life.intended_at is not None, "sent by plan"
    return life.sent_at - life.intended_at


def _ttft_offset(life: ClientLife, told: Sequence[int]) -> int:
    assert life.sent_at is not None, "it has an answer"
    return life.chunk_at[0] - life.sent_at - told[0]


def _gap_offsets(life: ClientLife, told: Sequence[int]) -> list[int]:
    seen = [b - a for a, b in pairwise(life.chunk_at)]
    return [gap - (b - a) for gap, (a, b) in zip(seen, pairwise(told), strict=True)]


def _offset(samples: list[int]) -> Offset:
    ordered = sorted(samples)
    median = nearest_rank(ordered, 0.5)
    away = sorted(abs(each - median) for each in samples)
    return Offset(
        n=len(ordered),
        median_ns=median,
        p99_ns=nearest_rank(ordered, 0.99),
        max_ns=ordered[-1],
        jitter_ns=nearest_rank(away, 0.99),
    )
