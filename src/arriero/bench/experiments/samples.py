"""Samples: the percentiles of one figure, with the number of samples that they rest on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import EvidenceLabel, Statement, Value
from arriero.metrics.distribution import FEWEST_FOR_P99
from arriero.metrics.quantiles import percentiles

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Percentiles by nearest rank; None where there is no sample, or too few for a p99.

    Attributes:
        n: samples.
    """

    n: int
    p50: float | None
    p95: float | None
    p99: float | None
    most: float | None

    def cells(self) -> tuple[Value, ...]:
        """For a table, in the order of `SAMPLE_HEADS`."""
        return (self.n, *map(rounded, (self.p50, self.p95, self.p99, self.most)))


SAMPLE_HEADS: Final = ("n", "p50", "p95", "p99", "max")


def samples(values: Iterable[float], scale: float = 1.0) -> Samples:
    """The percentiles of values in any order, each divided by `scale`."""
    scaled = [value / scale for value in values]
    found = percentiles(scaled)
    return Samples(
        n=len(scaled),
        p50=found.p50,
        p95=found.p95,
        p99=found.p99 if len(scaled) >= FEWEST_FOR_P99 else None,
        most=max(scaled, default=None),
    )


def median(values: Iterable[float]) -> float | None:
    """The median by nearest rank; None of nothing."""
    return percentiles(list(values)).p50


def ratio(figure: float | None, base: float | None) -> float | None:
    """A figure as a multiple of another one; None if either is missing, or the other is 0."""
    return None if figure is None or not base else figure / base


def rounded(value: float | None, digits: int = 4) -> float | None:
    """So many significant digits, for a table."""
    return None if value is None else float(f"{value:.{digits}g}")


def spread(rounds: Sequence[float | None], digits: int = 4) -> str:
    """The least and the greatest of what repeated rounds gave."""
    known = [each for each in rounds if each is not None]
    return f"{min(known):.{digits}g} ... {max(known):.{digits}g}" if known else "-"


def stable(text: str, hashes: Mapping[object, set[str]]) -> Statement:
    """That every answer to one question in one shape is the same.

    Args:
        text: what must be so.
        hashes: what was asked, in which shape → the hashes of its answers.
    """
    unstable = [key for key, found in hashes.items() if len(found) > 1]
    if not hashes:
        return Statement.undecided(text, "1 hash for each question and shape", "there was no answer")
    return Statement.so(
        text,
        f"{len(unstable)} of {len(hashes)} unstable" + (f", such as {unstable[0]}" if unstable else ""),
        "1 hash for each question and shape",
        holds=not unstable,
    )


def in_process_label(model: ModelSettings) -> EvidenceLabel:
    """The label of figures taken inside this process; those of a formula are no measurement of a model."""
    return EvidenceLabel.MEASURED if model.backend == "llama" else EvidenceLabel.SIMULATED


def http_label(model: ModelSettings) -> EvidenceLabel:
    """The label of figures taken by a client of a server."""
    return EvidenceLabel.END_TO_END if model.backend == "llama" else EvidenceLabel.SIMULATED
