"""PairedVerdict: what a series of interleaved pairs says about two sides, as a value for files and reports."""

from dataclasses import dataclass
from enum import StrEnum

from arriero.metrics.drift import Drift, TwoModes


class Verdict(StrEnum):
    """What may be said of B against A; five different answers, so five different words."""

    BETTER = "better"
    WORSE = "worse"
    NOT_RESOLVED = "not_resolved"  # the interval holds 1, or the difference lies within the noise floor
    NO_LARGER_DIFFERENCE = "no_larger_difference"  # the whole interval lies within the margin that was asked about
    NO_VERDICT = "no_verdict"  # the samples allow none: warming up, two modes, a sequential order, too few pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class SideFigures:
    """One side of the pairs, or their ratios, in the order of time.

    Attributes:
        mean: arithmetic.
        median: plain.
        sd: sample standard deviation, 0 for one sample.
        cv: sd / mean; None for a mean of 0.
        slope: least squares against the index of the pair; None below 2 pairs.
        r: Pearson's correlation with the index; None where it is undefined.
    """

    mean: float
    median: float
    sd: float
    cv: float | None
    slope: float | None
    r: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """What two identical sides differ by.

    Attributes:
        value: relative; a median ratio within [1 / (1 + value), 1 + value] is noise.
        low: of the A/A interval of the median ratio.
        high: same.
        num_pairs: it rests on.
        flags: cautions, a sentence each.
    """

    value: float
    low: float
    high: float
    num_pairs: int
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedVerdict:
    """The verdict and everything it rests on.

    Attributes:
        verdict: of B against A.
        reasons: why, a sentence each with its numbers.
        flags: cautions that a report shows on every line of this comparison, a sentence each.
        num_pairs: that were judged.
        median_ratio: median over pairs of b / a; None without a verdict because the values allow no ratio.
        low: of the bootstrap interval of that median.
        high: same.
        exact_low: of the order-statistic interval, exact for any distribution; None below the pairs it needs.
        exact_high: same.
        confidence: of both.
        higher_is_better: of the metric.
        floor: of an A/A run before; None if there was none, which is a flag.
        margin: the difference that was asked about; None if none was.
        sign_p_value: two-sided sign test of the ratios against 1; ties leave it out.
        above, below, equal: ratios more than, less than and equal to 1.
        a, b, ratios: figures of each side and of the ratios; None without pairs.
        half_medians: median ratio of the first n // 2 pairs and of the others; None below 2 pairs.
        order: sides in the order of running, such as `ABBAABBA`; None if it is not known, which is a flag.
        discard: pairs to leave out at the beginning so that the rest is steady; 0 if that is no remedy or not needed.
        drift_a, drift_b, drift_ratio: by name.
        modes_a, modes_b: by name.
        seed: of the bootstrap.
        resamples: same.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    flags: tuple[str, ...]
    num_pairs: int
    median_ratio: float | None
    low: float | None
    high: float | None
    exact_low: float | None
    exact_high: float | None
    confidence: float
    higher_is_better: bool
    floor: float | None
    margin: float | None
    sign_p_value: float | None
    above: int
    below: int
    equal: int
    a: SideFigures | None
    b: SideFigures | None
    ratios: SideFigures | None
    half_medians: tuple[float, float] | None
    order: str | None
    discard: int
    drift_a: Drift
    drift_b: Drift
    drift_ratio: Drift
    modes_a: TwoModes
    modes_b: TwoModes
    seed: int
    resamples: int
