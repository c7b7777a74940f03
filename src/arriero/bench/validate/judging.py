"""From lives to errors: the same figures of measured runs, of the simulation and perhaps of a peer, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from arriero.metrics.client_figures import ClientSummary
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_summary import summarise
from arriero.metrics.client_window import client_window
from arriero.record.validation import Compared, Levelled, compared, levelled

LATENCIES: Final[Mapping[str, str]] = MappingProxyType({"ttft": "ttft_ns", "itl": "itl_ns", "e2e": "e2e_ns"})
FIGURES: Final = ("p50", "p90", "p99")
TOKENS: Final = "output_tokens_per_s"
REQUESTS: Final = "requests_per_s"
STEP: Final = "step"
_NS_PER_MS: Final = 1e6


class Sides(NamedTuple):
    """What answered the same requests.

    Attributes:
        measured: each run of the engine.
        simulated: the prediction.
        peer: another server, or None.
    """

    measured: tuple[ClientSummary, ...]
    simulated: ClientSummary
    peer: ClientSummary | None = None


def summary_of(lives: Sequence[ClientLife]) -> ClientSummary:
    """All figures of all requests, from the first arrival to the last."""
    return summarise(lives, window=client_window(lives, starts_at=0))


class _Figure(NamedTuple):
    """A figure of a summary, and how it is read there."""

    metric: str
    figure: str
    unit: Literal["ms", "per_s"]

    def of(self, summary: ClientSummary) -> float | None:
        """Rates are of the whole run, drain included."""
        if self.unit == "ms":
            return latency(summary, self.metric, self.figure)
        rate: float | None = getattr(summary.whole_run, self.metric)
        return rate


_FIGURES: Final = (
    *(_Figure(metric, figure, "ms") for metric in LATENCIES for figure in FIGURES),
    *(_Figure(metric, "rate", "per_s") for metric in (TOKENS, REQUESTS)),
)


def comparisons(sides: Sides) -> Iterator[Compared]:
    """Latencies at their percentiles, then rates over the whole run, drain included."""
    for each in _FIGURES:
        yield compared(
            *each,
            measured=[each.of(summary) for summary in sides.measured],
            simulated=each.of(sides.simulated),
            peer=None if sides.peer is None else each.of(sides.peer),
        )


def levelled_figures(measured: Sequence[ClientSummary], simulated: Sequence[ClientSummary]) -> Iterator[Levelled]:
    """The figures of `comparisons`, each run of the engine beside a simulation of its own."""
    for each in _FIGURES:
        yield levelled(
            *each,
            measured=[each.of(summary) for summary in measured],
            simulated=[each.of(summary) for summary in simulated],
        )


def capacity_of(sides: Sides) -> Compared:
    """Output tokens a second while requests were arriving; of a load that is more than can be served."""
    return compared(
        TOKENS,
        "rate",
        "per_s",
        measured=[each.window.output_tokens_per_s for each in sides.measured],
        simulated=sides.simulated.window.output_tokens_per_s,
        peer=None if sides.peer is None else sides.peer.window.output_tokens_per_s,
    )


def latency(summary: ClientSummary, metric: str, figure: str) -> float | None:
    """Milliseconds, of all requests, where a failed one is later than every other; None if undefined or infinite."""
    table = summary.latency.all or summary.latency.finished
    distribution = getattr(table, LATENCIES[metric])
    value: float | None = None if distribution is None else getattr(distribution, figure)
    return None if value is None else value / _NS_PER_MS
