"""Judging: pairs of runs of the same round, the noise floor of the present setting, and what may be said.

A candidate takes the place of what is there only if it is faster beyond the interval and the floor; everything else,
a lack of data above all, leaves the present setting. With k questions each one is asked at 1 - 0.05 / k, so that the
chance of any wrong answer on identical sides is at most 5 %.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from arriero.lab.recommend.rounds import RecommendRecord, Setting, Stage
from arriero.metrics.paired import compare_pairs, noise_floor
from arriero.metrics.paired_figures import verdict_interval
from arriero.metrics.paired_verdict import Verdict
from arriero.record.cpu_lab.recommendation import Judgement, Mix

ERROR_RATE: Final = 0.05
_SEED: Final = 8081


class Pairs(NamedTuple):
    """Seconds of two settings in the rounds in which both succeeded."""

    seconds: tuple[tuple[float, float], ...]
    order: str  # two letters a pair, such as ABBA


class Rounds:
    """The confirming runs, by round and setting; read only."""

    def __init__(self, records: Iterable[RecommendRecord], mix: Mix) -> None:
        """Keep the seconds and the place of each run that succeeded."""
        self._runs: dict[int, dict[Setting, tuple[float, int]]] = {}
        for record in records:
            seconds = record.seconds(mix)
            if record.stage is Stage.CONFIRMING and seconds is not None:
                self._runs.setdefault(record.round, {})[record.setting] = (seconds, record.place)

    def pairs(self, one: Setting, other: Setting) -> Pairs:
        """In the order of the rounds."""
        found: list[tuple[float, float]] = []
        order: list[str] = []
        for _, runs in sorted(self._runs.items()):
            if one in runs and other in runs:
                (a, a_place), (b, b_place) = runs[one], runs[other]
                found.append((a, b))
                order.append("AB" if a_place < b_place else "BA")
        return Pairs(tuple(found), "".join(order))


def floor_of(rounds: Rounds, present: Setting, confidence: float) -> float | None:
    """What the present setting differs from itself by; None without a pair."""
    pairs = rounds.pairs(present, present._replace(copy=1)).seconds
    return noise_floor(pairs, seed=_SEED, confidence=confidence).value if pairs else None


def judge(
    rounds: Rounds, sides: tuple[Setting, Setting], names: tuple[str, str], floor: float | None, confidence: float
) -> Judgement:
    """A candidate against what holds without it.

    Args:
        rounds: the confirming ones.
        sides: what holds, then the candidate.
        names: of both, in words.
        floor: of `floor_of`; without one nothing is believed.
        confidence: of the interval.
    """
    pairs = rounds.pairs(*sides)
    found = compare_pairs(
        pairs.seconds,
        floor=floor,
        seed=_SEED,
        higher_is_better=False,
        confidence=confidence,
        order=pairs.order or None,
    )
    interval = verdict_interval(found)
    return Judgement(
        baseline=names[0],
        candidate=names[1],
        verdict=found.verdict.value,
        is_better=found.verdict is Verdict.BETTER and floor is not None,
        ratio=found.median_ratio,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        floor=floor,
        confidence=confidence,
        num_pairs=found.num_pairs,
        reasons=(*found.reasons, *found.flags),
    )


def confidence_for(num_questions: int) -> float:
    """Of each of so many questions."""
    return 1 - ERROR_RATE / max(1, num_questions)
