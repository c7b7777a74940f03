"""Every picture of a report of comparisons, with the words below it."""

from collections.abc import Iterator, Sequence
from typing import Final

from arriero.report.bench_view import setting_words
from arriero.report.compare_plots import ratio_figure, rounds_figure
from arriero.report.compare_view import CompareView, intervals, rounds_of
from arriero.report.drawing import Drawn

_MOST_PANELS: Final = 3
_RATIO_WORDS: Final = (
    "Diamond: median of B / A over pairs, filled where the metric decides; bar: the interval that its verdict rests "
    "on; strokes: each pair; grey: the noise floor of A against itself. A median inside of the grey, or an interval "
    "that holds 1, resolves nothing."
)
_ROUND_WORDS: Final = (
    "Each round of each side, in the order of running; hollow marks are warm-ups, A against itself, and checks, which "
    "are in no verdict. A level that changes along the rounds is a drift."
)


def compare_pictures(views: Sequence[CompareView]) -> Iterator[Drawn]:
    """The ratios of each comparison, then the rounds of each of its cells."""
    for view in views:
        found = intervals(view)
        if found:
            yield Drawn(f"ratios-{view.key}", "B against A", _RATIO_WORDS, ratio_figure(found))
        metrics = [question.metric for question in sorted(view.result.questions, key=lambda each: not each.decides)]
        for number, cell in enumerate(view.result.cells, start=1):
            panels = [(metric, rounds_of(cell, metric)) for metric in metrics[:_MOST_PANELS]]
            panels = [(metric, values) for metric, values in panels if values]
            if panels:
                title = f"Rounds: {setting_words(cell.setting)}" if cell.setting else "Rounds"
                words = _ROUND_WORDS + _left_out(metrics)
                yield Drawn(f"rounds-{view.key}-{number}", title, words, rounds_figure(panels))


def _left_out(metrics: Sequence[str]) -> str:
    rest = metrics[_MOST_PANELS:]
    return f" Not drawn: {', '.join(rest)}." if rest else ""
