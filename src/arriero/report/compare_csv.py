"""CSV of comparisons: one row a setting and metric, validity first; undefined empty."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Final

from arriero.metrics.paired_figures import verdict_interval
from arriero.record.bench_compare_parts import CompareCell
from arriero.report.compare_view import CompareView

_LEADING: Final = ("validity", "comparison", "evidence", "status", "a", "b", "setting", "order", "metric", "decides")
_INTERVALS: Final = ("low", "high", "bootstrap_low", "bootstrap_high", "exact_low", "exact_high")  # the first: of both
_FIGURES: Final = ("confidence", "floor", "margin", "num_pairs", "above", "below", "equal", "sign_p_value")
_VERDICT: Final = ("verdict", "median_ratio", *_INTERVALS, *_FIGURES)


def as_csv(views: Sequence[CompareView]) -> str:
    """All answers of all comparisons; a metric without a verdict says why in the last column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_LEADING, *_VERDICT, "a_median", "b_median", "withheld"))
    for view in views:
        for cell in view.result.cells:
            for question in view.result.questions:
                row = (*_leading(view, cell), question.metric, question.decides, *_verdict(cell, question.metric))
                writer.writerow("" if each is None else each for each in row)
    return text.getvalue()


def _leading(view: CompareView, cell: CompareCell) -> tuple[object, ...]:
    result = view.result
    flag = None if result.validity is None else result.validity.flag.value
    setting = json.dumps(cell.setting, sort_keys=True)
    return flag, view.name, result.evidence.value, result.status, result.a.name, result.b.name, setting, cell.order


def _verdict(cell: CompareCell, metric: str) -> list[object]:
    verdict = cell.verdicts.get(metric)
    if verdict is None:
        return [*(None for _ in _VERDICT), None, None, cell.withheld.get(metric)]
    sides = (None if side is None else side.median for side in (verdict.a, verdict.b))
    ends = verdict_interval(verdict) or (None, None)
    intervals = (*ends, verdict.low, verdict.high, verdict.exact_low, verdict.exact_high)
    figures = (getattr(verdict, name) for name in _FIGURES)
    return [verdict.verdict.value, verdict.median_ratio, *intervals, *figures, *sides, None]
