"""From lives to errors: the same figures of measured runs, of the simulation and perhaps of a peer, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

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


def comparisons(sides: Sides) -> Iterator[Compared]:
    """Latencies at their percentiles, then rates over the whole run, drain included."""
    for metric in LATENCIES:
        for figure in FIGURES:
            yield compared(
                metric,
                figure,
                "ms",
                measured=[latency(each, metric, figure) for each in sides.measured],
                simulated=latency(sides.simulated, metric, figure),
                peer=None if sides.peer is None else latency(sides.peer, metric, figure),
            )
    for metric in (TOKENS, REQUESTS):
        yield compared(
            metric,
            "rate",
            "per_s",
            measured=[getattr(each.whole_run, metric) for each in sides.measured],
            simulated=getattr(sides.simulated.whole_run, metric),
            peer=None if sides.peer is None else getattr(sides.peer.whole_run, metric),
        )


def levelled_figures(measured: Sequence[ClientSummary], simulated: Sequence[ClientSummary]) -> Iterator[Levelled]:
    """The figures of `comparisons`, each run of the engine beside a simulation of its own."""
    for metric in LATENCIES:
        for figure in FIGURES:
            yield levelled(
                metric,
                figure,
                "ms",
                measured=[latency(each, metric, figure) for each in measured],
                simulated=[latency(each, metric, figure) for each in simulated],
            )
    for metric in (TOKENS, REQUESTS):
        yield levelled(
            metric,
            "rate",
            "per_s",
            measured=[getattr(each.whole_run, metric) for each in measured],
            simulated=[getattr(each.whole_run, metric) for each in simulated],
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
