"""Every picture of a report of profiles, with the words below it."""

from collections.abc import Iterator
from typing import Final

from arriero.record.cpu_lab.perf_comparison import CaseHot
from arriero.report.cpu_lab.flame_graph import flame_graph
from arriero.report.cpu_lab.perf_plots import families_figure, functions_figure, ratios_figure
from arriero.report.cpu_lab.perf_view import RATIO_NAMES, PerfView, case_key, case_label, labels
from arriero.report.document import Picture
from arriero.report.drawing import Drawn

_FIRST: Final = 10
_FUNCTION_WORDS: Final = (
    "Share of samples or instructions that a function has by itself, in the colour of its family; beside it the "
    "speed-up of the whole if it took no time. PROFILED, whole invocation unless the table says otherwise."
)
_FAMILY_WORDS: Final = (
    "Shares of the families of functions; what lies below the limit of the tables is white. PROFILED."
)
_RATIO_WORDS: Final = (
    "Figures over those of the reference at the exact same workload; the line is the reference itself. PROFILED, whole "
    "invocation."
)
_FLAME_WORDS: Final = (
    "Width: share of all samples; upwards: who called whom, innermost on top. The order from left to right means "
    "nothing. Hover for whole names. PROFILED."
)


def perf_pictures(view: PerfView) -> Iterator[Drawn]:
    """Ratios, families, then the first functions of each case."""
    found = view.comparison
    ratios = view.drawn_ratios
    workloads = {(each.workload, each.mode, each.scope) for each in ratios}
    if len(workloads) == 1:
        names = [name for name in RATIO_NAMES if any(each.name == name for each in ratios)]
        yield Drawn("ratios", f"Against {ratios[0].reference}", _RATIO_WORDS, ratios_figure(ratios, names))
    if found.hot:
        yield Drawn("families", "Families of functions", _FAMILY_WORDS, families_figure(found.hot, labels(found.hot)))
    for case in found.hot:
        figure = functions_figure(case.functions[:_FIRST])
        yield Drawn(f"functions-{case_key(case)}", f"The first functions: {case_label(case)}", _FUNCTION_WORDS, figure)


def flame_graphs(view: PerfView) -> dict[str, str]:
    """Key -> the whole file, for each case that has stacks."""
    cases = ((case_key(case), case) for case in view.comparison.hot)
    return {
        f"flame-{key}": flame_graph(view.stacks[key], _flame_title(case)) for key, case in cases if key in view.stacks
    }


def flame_pictures(view: PerfView, graphs: dict[str, str]) -> dict[str, Picture]:
    """The same as parts of a page."""
    titles = {f"flame-{case_key(case)}": _flame_title(case) for case in view.comparison.hot}
    return {key: Picture(key, titles[key], _FLAME_WORDS, text) for key, text in graphs.items()}


def _flame_title(case: CaseHot) -> str:
    return f"{case_label(case)}: {case.attribution.measure}, PROFILED, {case.attribution.scope}"
