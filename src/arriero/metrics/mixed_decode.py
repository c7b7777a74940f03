"""Figures of the published mixed-decode simulator: float milliseconds, interpolated percentiles.

The formulas are those of `latency.py`; only percentiles, throughput and the names are its own. Order of evaluation is
part of the result, since two of its published figures are decided by a rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from arriero.metrics.latency import e2e, queue_time, ttft
from arriero.metrics.quantiles import interpolated


class MixedPolicy(StrEnum):
    """The three policies, in the order of reports."""

    FIFO = "fifo_context_pool"
    STATIC = "static_batching"
    CONTINUOUS = "continuous_batching"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedCost:
    """Coefficients in milliseconds."""

    base: float = 1.0
    prompt_token: float = 0.05
    decode_token: float = 0.5
    active_slot: float = 0.0
    stream_emit: float = 0.0


class MixedRequest(NamedTuple):
    """One request of a workload."""

    request_id: int
    arrival_ms: float
    prompt_tokens: int  # more than 0
    decode_tokens: int  # more than 0
    label: str


class MixedLife(NamedTuple):
    """One request that has run."""

    request: MixedRequest
    assigned_at_ms: float
    first_token_ms: float
    finish_ms: float

    @property
    def queue_wait_ms(self) -> float:
        """Admitted - arrival."""
        return _known(queue_time(self.request.arrival_ms, self.assigned_at_ms))

    @property
    def ttft_ms(self) -> float:
        """First token - arrival."""
        return _known(ttft(self.request.arrival_ms, self.first_token_ms))

    @property
    def total_latency_ms(self) -> float:
        """Finish - arrival."""
        return _known(e2e(self.request.arrival_ms, self.finish_ms))

    @property
    def prefill_ms(self) -> float:
        """First token - admitted."""
        return self.first_token_ms - self.assigned_at_ms

    @property
    def decode_ms(self) -> float:
        """Finish - first token."""
        return self.finish_ms - self.first_token_ms


class MixedIteration(NamedTuple):
    """One iteration, counted from 0."""

    start_ms: float
    end_ms: float
    prefill_rows: int
    decode_rows: int
    active_slots: int  # occupied after admission
    decode_calls: int
    cost_ms: float
    admitted: int
    completed: int

    @property
    def batch_size(self) -> int:
        """Rows of the iteration."""
        return self.prefill_rows + self.decode_rows


class MixedRun(NamedTuple):
    """One policy on one workload."""

    lives: tuple[MixedLife, ...]  # in id order
    iterations: tuple[MixedIteration, ...]


class MixedFigures(NamedTuple):
    """What the published table and summary show."""

    n_completed: int
    makespan_ms: float
    tokens_per_second: float
    decode_calls: int
    tokens_per_decode_call: float
    details: dict[str, float]  # names ascending


_FOUR: Final = (50, 90, 95, 99)
_TWO: Final = (50, 95)


def mixed_figures(run: MixedRun) -> MixedFigures:
    """All figures of one run; zeros for a workload without requests, as published."""
    lives, iterations = run
    first_arrival = min((each.request.arrival_ms for each in lives), default=0.0)
    makespan = max((each.finish_ms for each in lives), default=0.0) - first_arrival
    tokens = sum(each.request.prompt_tokens + each.request.decode_tokens for each in lives)
    rows = sum(each.batch_size for each in iterations)
    calls = sum(each.decode_calls for each in iterations)
    return MixedFigures(
        n_completed=len(lives),
        makespan_ms=makespan,
        tokens_per_second=tokens * 1000 / makespan if makespan else 0.0,
        decode_calls=calls,
        tokens_per_decode_call=rows / calls if calls else 0.0,
        details=_details(lives, iterations, rows),
    )


def _details(lives: Sequence[MixedLife], iterations: Sequence[MixedIteration], rows: int) -> dict[str, float]:
    found: dict[str, float] = {
        "average_batch_rows": rows / len(iterations) if iterations else 0.0,
        "n_iterations": len(iterations),
        **_percentiles("active_slots", [each.active_slots for each in iterations], _FOUR),
        **_percentiles("batch_size", [each.batch_size for each in iterations], _FOUR),
        **_percentiles("queue_wait_ms", [each.queue_wait_ms for each in lives], _TWO),
        **_percentiles("total_latency_ms", [each.total_latency_ms for each in lives], _FOUR),
        **_percentiles("ttft_ms", [each.ttft_ms for each in lives], _FOUR),
    }
    for label in sorted({each.request.label for each in lives}):
        members = [each for each in lives if each.request.label == label]
        latencies = [each.total_latency_ms for each in members]
        found[f"class_{label}_count"] = len(members)
        found.update(_percentiles(f"class_{label}_total_latency_ms", latencies, _TWO))
        found.update(_percentiles(f"class_{label}_ttft_ms", [each.ttft_ms for each in members], _TWO))
    return dict(sorted(found.items()))


def _percentiles(name: str, samples: Sequence[float], percents: tuple[int, ...]) -> dict[str, float]:
    return {f"{name}_p{percent}": interpolated(samples, percent) for percent in percents}


def _known(value: float | None) -> float:
    assert value is not None, "every moment of a request that has run is known"
    return value
