"""Whether one cell of a comparison agrees with itself.

A verdict stands on rounds that are not invalid, on an order that is not sequential, and on the very values that its
rounds hold; a metric whose verdict may not be used has none and says why.
"""

import math
from collections.abc import Sequence

from arriero.metrics.paired_figures import side_figures
from arriero.metrics.paired_order import OrderKind, judge_order
from arriero.metrics.paired_verdict import PairedVerdict, Verdict
from arriero.metrics.validity import Flag
from arriero.record.bench_compare_parts import CompareCell, Question, Round
from arriero.record.bench_result import broken, check_point


def pairs_of(cell: CompareCell, metric: str, phase: str = "ab") -> list[tuple[float, float]]:
    """(a, b) of each complete pair of a phase, in the order of running; a missing figure is NaN."""
    by_pair: dict[int, dict[str, float]] = {}
    for each in cell.rounds:
        if each.phase == phase and each.pair is not None:
            value = each.values.get(metric)
            by_pair.setdefault(each.pair, {})[each.side] = math.nan if value is None else value
    return [(sides["a"], sides["b"]) for sides in by_pair.values() if len(sides) == 2]


def check_cell(cell: CompareCell, questions: Sequence[Question], place: str, file: str, *, is_done: bool) -> None:
    """Refuse a cell that contradicts itself.

    Args:
        cell: to check.
        questions: of the comparison.
        place: of the cell in the file.
        file: to name.
        is_done: the comparison came to its end, so every question has an answer.

    Raises:
        DataError: names the field.
    """
    _check_order(cell, place, file)
    for index, each in enumerate(cell.rounds):
        _check_round(each, index, f"{place}.rounds[{index}]", file)
    asked = {question.metric: question for question in questions}
    for metric in cell.verdicts:
        if metric not in asked:
            raise broken(file, f"{place}.verdicts.{metric}", "nobody asked for this metric; run again")
        if metric in cell.withheld:
            raise broken(file, f"{place}.withheld.{metric}", "a withheld verdict is not told; leave it out")
        _check_verdict(cell, asked[metric], cell.verdicts[metric], f"{place}.verdicts.{metric}", file)
    silent = [metric for metric in asked if metric not in cell.verdicts and metric not in cell.withheld]
    if is_done and silent:
        raise broken(file, f"{place}.verdicts", f"{silent[0]} has neither a verdict nor a reason why not; run again")


def _check_order(cell: CompareCell, place: str, file: str) -> None:
    try:
        judged = judge_order(cell.order)
    except ValueError as error:
        raise broken(file, f"{place}.order", str(error)) from None
    if judged.kind is OrderKind.SEQUENTIAL:
        raise broken(file, f"{place}.order", judged.words)
    ran = "".join(each.side.upper() for each in cell.rounds if each.phase == "ab")
    if not cell.order.startswith(ran):
        raise broken(file, f"{place}.order", f"planned {cell.order}, but the rounds ran {ran}; run again")


def _check_round(each: Round, index: int, place: str, file: str) -> None:
    if each.index != index:
        raise broken(file, f"{place}.index", f"{each.index}, but rounds are numbered from 0 without gaps; run again")
    if (each.pair is None) == (each.phase in {"aa", "ab"}):
        raise broken(file, f"{place}.pair", f"{each.pair} in phase {each.phase}: pairs are numbered in aa and ab alone")
    check_point(each.point, f"{place}.point", file)


def _check_verdict(cell: CompareCell, question: Question, verdict: PairedVerdict, place: str, file: str) -> None:
    for each in cell.rounds:
        if each.phase in {"aa", "ab"} and each.point.validity.flag is Flag.INVALID:
            what = f"round {each.index} is invalid ({each.point.validity.reasons[0]}), so no verdict stands on it"
            raise broken(file, place, f"{what}; withhold it")
    if (verdict.order, verdict.higher_is_better, verdict.margin) != (
        cell.order,
        question.higher_is_better,
        question.margin,
    ):
        raise broken(file, place, "judged by another order or another question than the file states; run again")
    pairs = pairs_of(cell, question.metric)
    if verdict.num_pairs != len(pairs):
        raise broken(file, f"{place}.num_pairs", f"{verdict.num_pairs}, but the rounds make {len(pairs)}; run again")
    if verdict.verdict is Verdict.NO_VERDICT:
        return
    for side, figures, values in (
        ("a", verdict.a, [a for a, _ in pairs]),
        ("b", verdict.b, [b for _, b in pairs]),
        ("ratios", verdict.ratios, [b / a for a, b in pairs]),
    ):
        if figures != side_figures(values):
            raise broken(file, f"{place}.{side}", "does not follow from the values of the rounds; run again")
