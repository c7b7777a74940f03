"""The published rules for a paired comparison, to the letter, and why they say what they say.

    POSITIVE      prompt median > 0, interval above 0, 70 % of the pairs better, generation median at least -1 %,
                  duration median at most +1 %, both prompt CVs at most 3 %, no material drift
    REJECT        prompt median < 0 and interval below 0, or generation median < -1 % and interval below 0,
                  or duration median > +1 % and interval above 0
    INCONCLUSIVE  otherwise

Known weakness: REJECT is looked for three times, with 2.5 % of error each time, and nothing corrects for it nor asks
for an A/A run. `ab_rates.py` measures how often two equal sides are told apart.

They judge from summaries, so that a comparison can be judged again of which only those were printed. A condition that a
summary does not answer is not fulfilled, and the reason says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from arriero.metrics.paired_figures import Interval
from arriero.metrics.paired_percent import MATERIAL_HALVES, MATERIAL_R, PercentSummary, interval_words
from arriero.metrics.paired_verdict import Verdict

FEWEST_PAIRS: Final = 20
LEAST_SHARE: Final = 0.7
LARGEST_LOSS: Final = 1.0  # % of generation or duration
LARGEST_CV: Final = 3.0  # %

Word: TypeAlias = Literal["POSITIVE", "REJECT", "INCONCLUSIVE"]

WORDS: Final[Mapping[Verdict, Word]] = MappingProxyType({
    Verdict.BETTER: "POSITIVE",
    Verdict.WORSE: "REJECT",
    Verdict.NOT_RESOLVED: "INCONCLUSIVE",
    Verdict.NO_LARGER_DIFFERENCE: "INCONCLUSIVE",
    Verdict.NO_VERDICT: "INCONCLUSIVE",
})
"""The published word for each verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSummary:
    """The three metrics that the rules look at."""

    prompt: PercentSummary
    generation: PercentSummary
    duration: PercentSummary


class Judged(NamedTuple):
    """A verdict on a whole comparison."""

    verdict: Verdict
    reasons: tuple[str, ...]  # a sentence each, with its numbers

    @property
    def word(self) -> Word:
        """As published."""
        return WORDS[self.verdict]


def judge_published(summary: PublishedSummary) -> Judged:
    """The published verdict."""
    count = summary.prompt.num_pairs
    if count < FEWEST_PAIRS:
        return Judged(Verdict.NO_VERDICT, (f"{count} pairs: the published rules need at least {FEWEST_PAIRS}",))
    rejects = tuple(_rejects(summary))
    if rejects:
        return Judged(Verdict.WORSE, rejects)
    missing = tuple(_missing(summary))
    if missing:
        return Judged(Verdict.NOT_RESOLVED, missing)
    return Judged(Verdict.BETTER, (f"prompt rate {_words(summary.prompt)}, and every other condition holds",))


def _rejects(summary: PublishedSummary) -> Iterator[str]:
    prompt, generation, duration = summary.prompt, summary.generation, summary.duration
    if prompt.median < 0 and prompt.high < 0:
        yield f"prompt rate {_words(prompt)}: it is lower"
    if generation.median < -LARGEST_LOSS and generation.high < 0:
        yield f"generation rate {_words(generation)}: it is lower by more than {LARGEST_LOSS:g} %"
    if duration.median > LARGEST_LOSS and duration.low > 0:
        yield f"duration {_words(duration)}: it is longer by more than {LARGEST_LOSS:g} %"


def _missing(summary: PublishedSummary) -> Iterator[str]:
    """The conditions of POSITIVE that do not hold."""
    prompt = summary.prompt
    if prompt.median <= 0:
        yield f"prompt rate {_words(prompt)}: its median is not above 0"
    elif prompt.low <= 0:
        yield f"prompt rate {_words(prompt)}: the interval holds 0"
    yield from _missing_signs(prompt)
    if summary.generation.median < -LARGEST_LOSS:
        yield f"generation rate {_words(summary.generation)}: its median is below -{LARGEST_LOSS:g} %"
    if summary.duration.median > LARGEST_LOSS:
        yield f"duration {_words(summary.duration)}: its median is above +{LARGEST_LOSS:g} %"
    yield from _unsteady(prompt)
    yield from _drifting(prompt)


def _missing_signs(prompt: PercentSummary) -> Iterator[str]:
    if prompt.signs is None:
        yield "the number of better pairs is not known"
    elif prompt.signs.share_better < LEAST_SHARE:
        yield f"{prompt.signs.better} of {prompt.signs.total} pairs are better; {LEAST_SHARE:.0%} are needed"


def _unsteady(prompt: PercentSummary) -> Iterator[str]:
    for side, cv in (("A", prompt.cv_a), ("B", prompt.cv_b)):
        if cv is None:
            yield f"the CV of the prompt rate of {side} is not known"
        elif cv > LARGEST_CV:
            yield f"CV of the prompt rate of {side}: {cv:.2f} %, more than {LARGEST_CV:g} %"


def _drifting(prompt: PercentSummary) -> Iterator[str]:
    if prompt.has_material_drift is None:
        yield "drift of the prompt rate is not known"
    if prompt.r is not None and abs(prompt.r) >= MATERIAL_R:
        yield f"drift: r {prompt.r:+.3f} of differences against numbers of pairs, at least {MATERIAL_R:g}"
    apart = prompt.halves_differ_by
    if prompt.half_medians is not None and apart is not None and apart > MATERIAL_HALVES:
        first, second = prompt.half_medians
        yield (
            f"drift: medians of the halves {first:+.3f} and {second:+.3f} % are {apart:.3f} points apart, "
            f"more than {MATERIAL_HALVES:g}"
        )


def _words(summary: PercentSummary) -> str:
    return f"{summary.median:+.3f} % (interval {interval_words(Interval(summary.low, summary.high))})"
