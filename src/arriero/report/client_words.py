"""Client words: the latencies of a load generator's tables, their labels, and how their figures are written."""

from types import MappingProxyType
from typing import Final

from arriero.metrics.client_figures import Distribution
from arriero.report.written import UNDEFINED, Unit, written

LABELS: Final = MappingProxyType({
    "ttft_ns": "TTFT",
    "service_ttft_ns": "service TTFT",
    "itl_ns": "ITL",
    "icl_ns": "ICL",
    "itl_max_ns": "largest gap",
    "tpot_ns": "TPOT",
    "normalised_ns": "E2E / tokens",
    "e2e_ns": "E2E",
    "targeted_ns": "E2E from the intended send",
    "service_e2e_ns": "service E2E",
    "closing_ns": "closing time",
})
"""Field of `LatencyTable` → the word for it, in the order of tables."""

FIGURES: Final = ("p50", "p90", "p95", "p99", "p99_9", "max", "mean")
INFINITE: Final = "∞"


def figure_of(distribution: Distribution | None, name: str) -> str:
    """One figure in milliseconds; infinity where it falls among failures, a dash where it is undefined."""
    if distribution is None:
        return UNDEFINED
    if distribution.is_infinite(name):
        return INFINITE
    value: float | None = getattr(distribution, name)
    return written(None if value is None else value / 1e3, Unit.TIME)
