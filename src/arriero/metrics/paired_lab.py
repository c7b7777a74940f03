"""The published lab's rule for a paired A/B of two builds: three metrics, one verdict, its own bootstrap.

Beside the verdict of `paired.py`, whose intervals cover what they claim, this one keeps published studies comparable:
paired percentages, a percentile bootstrap of their median without interpolation, and fixed bounds.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from arriero.metrics.paired_figures import half_medians, side_figures
from arriero.metrics.paired_verdict import SideFigures
from arriero.metrics.quantiles import interpolated

ORDER_SEED: Final = 8081
BOOTSTRAP_SEED: Final = 20260801
RESAMPLES: Final = 50_000
LEAST_SHARE_BETTER: Final = 0.7
LARGEST_LOSS: Final = 1.0
"""Percent that generation may lose, and duration gain, beside a better prompt rate."""
LARGEST_CV: Final = 0.03
LARGEST_R: Final = 0.5
LARGEST_HALF_DIFFERENCE: Final = 1.0
"""Percentage points between the medians of the two halves."""


class LabVerdict(StrEnum):
    """The three answers."""

    POSITIVE = "POSITIVE"
    REJECT = "REJECT"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedPercent:
    """100 (optimised - baseline) / baseline over pairs, in the order of running.

    Attributes:
        median: the decision statistic.
        low: number 1,250 of the sorted medians of 50,000 resamples, counted from 0.
        high: number 48,750.
        above, below, equal: pairs that gained, lost, and neither.
        halves: median of the first n // 2 pairs and of the others; None below two.
        figures: moments, slope and Pearson's r against the index of the pair.
        baseline, optimised: the same of each side.
    """

    median: float
    low: float
    high: float
    above: int
    below: int
    equal: int
    halves: tuple[float, float] | None
    figures: SideFigures
    baseline: SideFigures
    optimised: SideFigures

    @property
    def drifts(self) -> bool:
        """Whether the effect changes materially during the run."""
        r = self.figures.r
        apart = 0.0 if self.halves is None else abs(self.halves[0] - self.halves[1])
        return (r is not None and abs(r) >= LARGEST_R) or apart > LARGEST_HALF_DIFFERENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class LabJudgement:
    """The verdict on a build, and what it rests on.

    Attributes:
        verdict: of the three metrics together.
        reasons: what stands against POSITIVE, or what REJECT is for; empty for POSITIVE.
        prompt: prompt tokens per second, more is better.
        generation: generated tokens per second, more is better.
        duration: of the whole invocation, less is better.
    """

    verdict: LabVerdict
    reasons: tuple[str, ...]
    prompt: PairedPercent
    generation: PairedPercent
    duration: PairedPercent


def lab_order(num_pairs: int, seed: int = ORDER_SEED) -> str:
    """The published order of running as letters, A for the baseline: each pair is shuffled on its own."""
    source = random.Random(seed)
    letters: list[str] = []
    for _ in range(num_pairs):
        pair = ["A", "B"]
        source.shuffle(pair)
        letters.extend(pair)
    return "".join(letters)


def paired_percent(pairs: Sequence[tuple[float, float]]) -> PairedPercent:
    """Figures of (baseline, optimised) pairs; at least one, baselines above 0."""
    percents = [100 * (optimised - baseline) / baseline for baseline, optimised in pairs]
    source = random.Random(BOOTSTRAP_SEED)
    count = len(percents)
    medians = sorted(
        interpolated([percents[source.randrange(count)] for _ in range(count)], 50) for _ in range(RESAMPLES)
    )
    above, below = sum(percent > 0 for percent in percents), sum(percent < 0 for percent in percents)
    return PairedPercent(
        median=interpolated(percents, 50),
        low=medians[RESAMPLES * 25 // 1000],
        high=medians[RESAMPLES * 975 // 1000],
        above=above,
        below=below,
        equal=count - above - below,
        halves=half_medians(percents),
        figures=side_figures(percents),
        baseline=side_figures([baseline for baseline, _ in pairs]),
        optimised=side_figures([optimised for _, optimised in pairs]),
    )


def judge_build(prompt: PairedPercent, generation: PairedPercent, duration: PairedPercent) -> LabJudgement:
    """The published verdict."""
    rejections = tuple(_rejections(prompt, generation, duration))
    doubts = tuple(_doubts(prompt, generation, duration))
    if rejections:
        verdict, reasons = LabVerdict.REJECT, rejections
    elif doubts:
        verdict, reasons = LabVerdict.INCONCLUSIVE, doubts
    else:
        verdict, reasons = LabVerdict.POSITIVE, ()
    return LabJudgement(verdict=verdict, reasons=reasons, prompt=prompt, generation=generation, duration=duration)


def _rejections(prompt: PairedPercent, generation: PairedPercent, duration: PairedPercent) -> Iterator[str]:
    if prompt.median < 0 and prompt.high < 0:
        yield f"prompt rate falls: median {prompt.median:+.3f} %, interval below 0"
    if generation.median < -LARGEST_LOSS and generation.high < 0:
        yield f"generation rate falls: median {generation.median:+.3f} %, interval below 0"
    if duration.median > LARGEST_LOSS and duration.low > 0:
        yield f"duration grows: median {duration.median:+.3f} %, interval above 0"


def _doubts(prompt: PairedPercent, generation: PairedPercent, duration: PairedPercent) -> Iterator[str]:
    count = prompt.above + prompt.below + prompt.equal
    if not (prompt.median > 0 and prompt.low > 0):
        yield f"prompt rate: median {prompt.median:+.3f} %, interval from {prompt.low:+.3f} to {prompt.high:+.3f}"
    if prompt.above < LEAST_SHARE_BETTER * count:
        yield f"only {prompt.above} of {count} pairs are better"
    if generation.median < -LARGEST_LOSS:
        yield f"generation rate: median {generation.median:+.3f} %"
    if duration.median > LARGEST_LOSS:
        yield f"duration: median {duration.median:+.3f} %"
    for side, figures in (("baseline", prompt.baseline), ("optimised", prompt.optimised)):
        if figures.cv is None or figures.cv > LARGEST_CV:
            yield f"prompt rate of the {side} varies by more than {LARGEST_CV:.0%}"
    if prompt.drifts:
        yield "the effect on the prompt rate drifts during the run"
