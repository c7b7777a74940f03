"""CompareView: a comparison of two targets with a name, and what its figures draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.metrics.paired_figures import verdict_interval
from arriero.metrics.paired_verdict import PairedVerdict, Verdict
from arriero.record.bench_compare import CompareResult
from arriero.record.bench_compare_check import pairs_of
from arriero.record.bench_compare_parts import CompareCell, Question
from arriero.report.bench_view import setting_words


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareView:
    """One comparison file.

    Attributes:
        key: unique on the page.
        name: unique on the page.
        file: its name.
        sha256: of its bytes.
    """

    key: str
    name: str
    file: str
    sha256: str
    result: CompareResult


class Interval(NamedTuple):
    """One verdict of one cell, as a figure draws it."""

    label: str
    verdict: Verdict
    middle: float  # median of b / a
    low: float  # of the interval that the verdict rests on
    high: float
    floor: float | None
    ratios: tuple[float, ...]  # b / a of each pair
    decides: bool


class RoundValue(NamedTuple):
    """One round of one side."""

    number: int  # in the order of running
    side: str
    phase: str
    value: float


def compare_views(results: Sequence[tuple[Path, str, CompareResult]]) -> list[CompareView]:
    """Comparisons in their order: path, hash of the file, and what was read from it."""
    stems = [path.stem for path, _, _ in results]
    return [
        CompareView(
            key=f"comparison-{number}",
            name=path.stem if stems.count(path.stem) == 1 else f"{path.stem} ({number})",
            file=path.name,
            sha256=sha256,
            result=result,
        )
        for number, (path, sha256, result) in enumerate(results, start=1)
    ]


def intervals(view: CompareView) -> list[Interval]:
    """Every verdict with an interval, those that decide first within their cell."""
    found: list[Interval] = []
    for cell in view.result.cells:
        for question in sorted(view.result.questions, key=lambda each: not each.decides):
            verdict = cell.verdicts.get(question.metric)
            if verdict is not None and (each := _interval(cell, question, verdict)) is not None:
                found.append(each)
    return found


def _interval(cell: CompareCell, question: Question, verdict: PairedVerdict) -> Interval | None:
    ends = verdict_interval(verdict)
    if verdict.median_ratio is None or ends is None:
        return None
    words = setting_words(cell.setting)
    return Interval(
        label=f"{words}: {question.metric}" if words else question.metric,
        verdict=verdict.verdict,
        middle=verdict.median_ratio,
        low=ends.low,
        high=ends.high,
        floor=verdict.floor,
        ratios=tuple(b / a for a, b in pairs_of(cell, question.metric) if a > 0 and b > 0),
        decides=question.decides,
    )


def rounds_of(cell: CompareCell, metric: str) -> list[RoundValue]:
    """What each round gave for a metric, in the order of running."""
    values = ((each, each.values.get(metric)) for each in cell.rounds)
    return [RoundValue(each.index, each.side, each.phase, value) for each, value in values if value is not None]


WORDS: Final[Mapping[Verdict, str]] = MappingProxyType({
    Verdict.BETTER: "B is better",
    Verdict.WORSE: "B is worse",
    Verdict.NOT_RESOLVED: "not resolved",
    Verdict.NO_LARGER_DIFFERENCE: "no larger difference",
    Verdict.NO_VERDICT: "no verdict",
})
