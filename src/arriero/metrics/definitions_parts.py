"""Definitions: what a tool means by the words for latency, as a table of formulas over one raw event log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.window import Window


class PercentileRule(StrEnum):
    """How a percentile is taken."""

    NEAREST_RANK = "nearest_rank"  # number ceil(p N), a sample that occurred
    LINEAR = "linear"  # between the neighbours of position (N - 1) p


class LagRule(StrEnum):
    """How the lateness of the client itself is shown."""

    INTENDED = "intended"  # actual - intended send
    LEAST_LATE = "least_late"  # the same, less that of the least late request
    NONE = "none"  # the tool shows none


class Samples(NamedTuple):
    """What one request adds to a distribution; without values it is undefined there."""

    values: Sequence[float]
    weight: float = 1.0  # of each value


UNDEFINED = Samples(())

Formula: TypeAlias = Callable[[ClientLife], Samples]
"""Nanoseconds of a request that ended normally."""

Span: TypeAlias = Callable[[Sequence[ClientLife], Window], Window]
"""The stretch that throughputs are over, from all requests and the measured window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """One set.

    Attributes:
        name: as in `--definitions NAME`.
        version: of the tool whose words these are; ours for our own.
        rule: of its percentiles.
        latencies: field of `LatencyTable` -> formula; what is missing the tool does not have.
        span: of its throughputs.
        ends_at: the moment at which a request counts as done.
        is_good: whether a request that ended normally keeps the objectives; None for one that is left out of shares,
            and None in place of the function if the tool has no goodput.
        has_failures: it shows a second table in which failures count as infinity.
        counts_partial: its output throughput counts tokens of requests that did not end normally.
        lag: how it shows its own lateness.
        words: the same as sentences, to be printed beside the figures.
    """

    name: str
    version: str
    rule: PercentileRule
    latencies: Mapping[str, Formula]
    span: Span
    ends_at: Callable[[ClientLife], int | None]
    is_good: Callable[[ClientLife, ClientSlos], bool | None] | None
    has_failures: bool
    counts_partial: bool
    lag: LagRule
    words: Mapping[str, str]

    def ttft(self, life: ClientLife) -> float | None:
        """Time to first token in ns; None where it is undefined or unknown to the tool."""
        return self._single("ttft_ns", life)

    def itl(self, life: ClientLife) -> Samples:
        """What the tool calls inter-token latency, in ns."""
        return self.samples("itl_ns", life)

    def tpot(self, life: ClientLife) -> float | None:
        """Time per output token in ns; None where it is undefined or unknown to the tool."""
        return self._single("tpot_ns", life)

    def e2e(self, life: ClientLife) -> float | None:
        """End-to-end latency in ns; None where it is undefined."""
        return self._single("e2e_ns", life)

    def samples(self, name: str, life: ClientLife) -> Samples:
        """Samples of one latency, by its field of `LatencyTable`; without values if the tool has no such latency."""
        formula = self.latencies.get(name)
        return UNDEFINED if formula is None else formula(life)

    def _single(self, name: str, life: ClientLife) -> float | None:
        return next(iter(self.samples(name, life).values), None)


def one(value: float | None, weight: float = 1.0) -> Samples:
    """One value, or none."""
    return UNDEFINED if value is None else Samples((value,), weight)
