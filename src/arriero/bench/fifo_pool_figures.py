"""Figures of a run of the context pool, with the published names; formulas over the lives of its requests."""

import statistics
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from arriero.bench.fifo_pool_request import PoolLife, PoolOutcome
from arriero.bench.fifo_pool_runners import PoolRun
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.quantiles import percentiles

_NS_PER_MS: Final = 1e6
_NS_PER_S: Final = 1e9


class LatencyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds by nearest rank; null without samples, and a p99 of fewer than 100 too."""

    n: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class PoolFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one run came to.

    Attributes:
        ok, cancelled: requests by their end.
        errors: kind of failure → requests.
        wall_ms: from the first ask until the last client had its answer.
        tokens: of all requests, whatever their end.
        tokens_per_s: the same over the wall.
        ttft_ms: from asking to the first token, waiting included, of requests that ended well.
        total_ms: from asking to the end, of requests that ended well and had something to compute.
        rate_variation: standard deviation over mean of these requests' tokens / total; null for fewer than 2.
        decode_calls: in all.
        acquires, releases, waits, wakes, left, peak_in_use: of the pool; null without one.
        bypassed: requests with budget 0.
    """

    ok: int
    cancelled: int
    errors: dict[str, int]
    wall_ms: float
    tokens: int
    tokens_per_s: float | None
    ttft_ms: LatencyFigures
    total_ms: LatencyFigures
    rate_variation: float | None
    decode_calls: int
    acquires: int | None
    releases: int | None
    waits: int | None
    wakes: int | None
    left: int | None
    peak_in_use: int | None
    bypassed: int


def pool_figures(run: PoolRun) -> PoolFigures:
    """All of them."""
    lives, counts = run.lives, run.counts
    served = [life for life in lives if life.outcome is PoolOutcome.OK and life.budget]
    wall = run.ended_at - run.began_at
    tokens = sum(len(life.tokens) for life in lives)
    return PoolFigures(
        ok=sum(life.outcome is PoolOutcome.OK for life in lives),
        cancelled=sum(life.outcome is PoolOutcome.CANCELLED for life in lives),
        errors=dict(sorted(Counter(life.error for life in lives if life.error is not None).items())),
        wall_ms=wall / _NS_PER_MS,
        tokens=tokens,
        tokens_per_s=tokens * _NS_PER_S / wall if wall else None,
        ttft_ms=_latencies(life.first_at - life.asked_at for life in served if life.first_at is not None),
        total_ms=_latencies(life.ended_at - life.asked_at for life in served),
        rate_variation=_variation([rate for life in served if (rate := _rate(life)) is not None]),
        decode_calls=run.decode_calls,
        acquires=None if counts is None else counts.acquires,
        releases=None if counts is None else counts.releases,
        waits=None if counts is None else counts.waits,
        wakes=None if counts is None else counts.wakes,
        left=None if counts is None else counts.left,
        peak_in_use=None if counts is None else counts.peak,
        bypassed=sum(life.budget == 0 for life in lives),
    )


def _latencies(durations_ns: Iterable[int]) -> LatencyFigures:
    samples = [duration / _NS_PER_MS for duration in durations_ns]
    found = percentiles(samples)
    return LatencyFigures(
        n=len(samples),
        p50_ms=found.p50,
        p95_ms=found.p95,
        p99_ms=found.p99 if len(samples) >= FEWEST_FOR_P99 else None,
        max_ms=max(samples, default=None),
    )


def _rate(life: PoolLife) -> float | None:
    """Tokens a second, waiting included."""
    total = life.ended_at - life.asked_at
    return len(life.tokens) * _NS_PER_S / total if total > 0 else None


def _variation(rates: list[float]) -> float | None:
    return statistics.stdev(rates) / statistics.fmean(rates) if len(rates) > 1 and any(rates) else None
