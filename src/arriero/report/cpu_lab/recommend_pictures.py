"""Pictures of a recommendation: what the first rounds saw over threads, and files by size and speed."""

from collections.abc import Iterator
from typing import Final

from arriero.metrics.spread import Spread
from arriero.metrics.standings import Offer, offer_standings
from arriero.record.cpu_lab.analysis import Phase
from arriero.record.cpu_lab.recommendation import RecommendationRun, Screened
from arriero.report.cpu_lab.curves import (
    MOST_CURVES,
    Bargain,
    BargainPanel,
    Curve,
    CurvePanel,
    Mark,
    bargain_figure,
    curve_figure,
)
from arriero.report.cpu_lab.fronts import BARGAIN_WORDS
from arriero.report.drawing import Drawn

_SCREENED: Final = (
    "The first rounds: means, strokes are one standard deviation. They only pick what the later rounds judge. "
    "Dashed grey: the first file, if each thread were worth as much as the first ones."
)
_FILES: Final = f"Size across, speed upward at the best number of threads. {BARGAIN_WORDS} All of it: speed and size."


def recommend_pictures(run: RecommendationRun) -> Iterator[Drawn]:
    """Threads if there are several, files if there are several."""
    panels = [panel for phase in Phase if (panel := _thread_panel(run, phase)).curves]
    if panels and len({each.threads for each in run.screened}) > 1:
        yield Drawn("recommend-threads", "Speed over threads, first rounds", _SCREENED, curve_figure(panels))
    bargains = [_bargain_panel(run, phase) for phase in Phase]
    if all(len(panel.points) > 1 for panel in bargains):
        yield Drawn("recommend-files", "Files by size and speed, first rounds", _FILES, bargain_figure(bargains))


def _thread_panel(run: RecommendationRun, phase: Phase) -> CurvePanel:
    curves: list[Curve] = []
    for choice in run.choices[:MOST_CURVES]:
        marks = [
            Mark(each.threads, rate.mean, rate.sd)
            for each in run.screened
            if each.file == choice.file and (rate := _rate(each, phase)) is not None
        ]
        if marks:
            curves.append(Curve(choice.file.removesuffix(".gguf"), marks))
    return CurvePanel(phase.value, "threads", "tokens/s", curves, ideal=True)


def _bargain_panel(run: RecommendationRun, phase: Phase) -> BargainPanel:
    """Every file at the number of threads that it was fastest with."""
    best: dict[str, Spread] = {}
    for each in run.screened:
        rate = _rate(each, phase)
        if rate is not None and (each.file not in best or best[each.file].mean < rate.mean):
            best[each.file] = rate
    offers = [Offer(run.file(name).num_bytes, rate) for name, rate in best.items()]
    points = [
        Bargain(run.file(name).weights, offer.num_bytes / 1e6, offer.rate, standing)
        for name, offer, standing in zip(best, offers, offer_standings(offers), strict=True)
    ]
    return BargainPanel(phase.value, points)


def _rate(screened: Screened, phase: Phase) -> Spread | None:
    return screened.prefill if phase is Phase.PREFILL else screened.decode
