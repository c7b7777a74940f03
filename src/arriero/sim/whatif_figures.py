"""The figures by which configurations are compared: a few of a client's summary, and of the steps below it.

Latencies are milliseconds, of all requests: one that was refused or failed is later than every other. None is
undefined, or infinite.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from arriero.metrics.client_figures import ClientSlos, ClientSummary
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_summary import summarise
from arriero.sim.recorded_run import RecordedRun
from arriero.sim.whatif import SimulatedLoad

Figures: TypeAlias = dict[str, float | None]
"""By name, in the order of a table."""

_NS_PER_MS: Final = 1e6
_LATENCIES: Final = (
    ("TTFT p50 ms", "ttft_ns", "p50"), ("TTFT p90 ms", "ttft_ns", "p90"), ("TTFT p99 ms", "ttft_ns", "p99"),
    ("ITL p50 ms", "itl_ns", "p50"), ("ITL p99 ms", "itl_ns", "p99"), ("largest gap p90 ms", "itl_max_ns", "p90"),
    ("TPOT p50 ms", "tpot_ns", "p50"), ("E2E p50 ms", "e2e_ns", "p50"), ("E2E p90 ms", "e2e_ns", "p90"),
    ("E2E p99 ms", "e2e_ns", "p99"),
)  # fmt: skip
_RATES: Final = (
    ("requests/s", "requests_per_s"), ("output tokens/s", "output_tokens_per_s"), ("goodput/s", "good_requests_per_s"),
)  # fmt: skip


def client_figures(summary: ClientSummary) -> Figures:
    """Of the requests that are judged: those after a warm-up."""
    counts = summary.counts
    found: Figures = {
        "requests": float(counts.intended - counts.warm_up),
        "finished": float(counts.finished),
        "refused": float(counts.by_outcome["rejected"] + counts.by_outcome["error"]),
    }
    table = summary.latency.all or summary.latency.finished
    for label, name, figure in _LATENCIES:
        distribution = getattr(table, name)
        value: float | None = None if distribution is None else getattr(distribution, figure)
        found[label] = None if value is None else value / _NS_PER_MS
    for label, name in _RATES:
        found[label] = getattr(summary.whole_run, name)
    if summary.attainment is not None:
        found["good of submitted"] = summary.attainment.of_submitted
    return found


def load_figures(load: SimulatedLoad, summary: ClientSummary) -> Figures:
    """Of a simulated load, its steps included."""
    busy_ms = load.busy_us / 1e3
    return {
        **client_figures(summary),
        **_step_figures(load.num_steps, busy_ms, load.mean_running),
        "preemptions": float(load.num_preemptions),
    }


def recorded_figures(run: RecordedRun, slos: ClientSlos | None) -> Figures:
    """Of what was recorded, by the same words."""
    sequence_us = sum(step.took_us * len(step.rows) for step in run.steps)
    mean_running = sequence_us / run.busy_us if run.busy_us else None
    return {
        **client_figures(summary_of(run.lives, slos)),
        **_step_figures(len(run.steps), run.busy_us / 1e3, mean_running),
        "preemptions": float(run.num_preemptions),
    }


def summary_of(lives: Sequence[ClientLife], slos: ClientSlos | None) -> ClientSummary:
    """All figures of all requests, from the first arrival to the last."""
    return summarise(lives, slos=slos)


def _step_figures(num_steps: int, busy_ms: float, mean_running: float | None) -> Figures:
    return {
        "mean sequences of a step": mean_running,
        "mean step ms": busy_ms / num_steps if num_steps else None,
        "steps": float(num_steps),
    }
