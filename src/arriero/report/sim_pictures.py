"""Every picture of a report of simulated and recorded runs, with the words below it."""

from collections.abc import Iterator, Sequence
from typing import Final

from arriero.report.cdf_plots import CURVES_AT_ONCE, CdfPanel, cdf_figure, thinning_words
from arriero.report.drawing import Drawn
from arriero.report.gantt import STALL_FACTOR, Gantt, gantt
from arriero.report.latencies import ITL, LATENCIES, samples
from arriero.report.run_view import RunView
from arriero.report.series import Cdf, Detail, Stretches, cdf, cdf_of_counts, detail_for
from arriero.report.sim_document import comparison_of
from arriero.report.sim_plots import gantt_figure, timeline_figure
from arriero.report.timeline import Timeline, timeline

_MOST_STRETCHED: Final = 3.0
"""Runs share one time axis unless the longest takes so many times as long as the shortest."""


def sim_pictures(runs: Sequence[RunView]) -> Iterator[Drawn]:
    """Distributions of all runs, then the timeline and the Gantt of each."""
    if not runs:
        return
    detail = detail_for(len(runs))
    yield from _distributions(runs, detail)
    ends = [run.span[1] for run in runs]
    has_common_axis = comparison_of(runs).is_fair and max(ends) <= _MOST_STRETCHED * min(ends)
    for number, run in enumerate(runs, start=1):
        yield _timeline(run, f"run-{number}", (0.0, max(ends)) if has_common_axis else run.span, detail)
        bars = gantt(run.requests, run.ended_at, detail)
        if bars is not None:
            yield Drawn(f"gantt-run-{number}", "Requests one by one", _gantt_words(bars), gantt_figure(bars))


def _distributions(runs: Sequence[RunView], detail: Detail) -> Iterator[Drawn]:
    groups = [runs[start : start + CURVES_AT_ONCE] for start in range(0, len(runs), CURVES_AT_ONCE)]
    for number, group in enumerate(groups, start=1):
        panels = [*_latency_panels(group, detail), _gap_panel(group, detail)]
        words = _cdf_words([curve for panel in panels for curve in panel.curves if curve is not None], detail)
        title = "How long things took" if len(groups) == 1 else f"How long things took ({number} of {len(groups)})"
        yield Drawn(f"cdf-{number}", title, words, cdf_figure(panels, [run.name for run in group]))


def _latency_panels(runs: Sequence[RunView], detail: Detail) -> Iterator[CdfPanel]:
    for latency in LATENCIES:
        curves: list[Cdf | None] = []
        for run in runs:
            values, num_censored = samples(run, latency.name)
            curves.append(cdf(values, num_censored=num_censored, detail=detail))
        yield CdfPanel(latency.label, curves, [run.objectives.get(latency.name) for run in runs])


def _gap_panel(runs: Sequence[RunView], detail: Detail) -> CdfPanel:
    curves = [cdf_of_counts(run.requests.gaps.pooled, detail=detail) for run in runs]
    return CdfPanel(f"{ITL.label}, all gaps", curves, [None] * len(runs))


def _timeline(run: RunView, key: str, span: tuple[float, float], detail: Detail) -> Drawn:
    curves = timeline(run, detail)
    words = _timeline_words(curves, detail)
    if span[1] > run.span[1]:
        words += " The axis is that of the longest run, so that runs can be compared by eye."
    return Drawn(f"timeline-{key}", "Over time", words, timeline_figure(curves, span))


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _cdf_words(curves: Sequence[Cdf], detail: Detail) -> str:
    words = [
        "Share of requests (of gaps, for ITL) whose value is at most so large; everybody but planned cancellations.",
    ]
    if any(curve.num_censored for curve in curves):
        words.append("A curve that ends below 100 % shows how many never got there.")
    words.append(thinning_words(curves, detail))
    words.append("A logarithmic axis begins where 5 % are reached, so the lowest values lie left of it.")
    return " ".join(word for word in words if word)


def _timeline_words(curves: Timeline, detail: Detail) -> str:
    words: list[str] = []
    if curves.rows is not None:
        words.append(f"Rows of a step: 0 while nothing is computed. {_how_drawn(curves.rows, 'steps', detail)}")
    if curves.counts_steps:
        words.append("Running and waiting requests are those of each step, preempted ones among the waiting.")
    else:
        words.append(
            "Requests wait from arrival to their first step, and run from there to their end. "
            f"{_how_drawn(curves.waiting, 'changes of the waiting', detail)}"
        )
    if curves.kv is not None:
        words.append(
            "KV is what is held after each step, by requests and by caches; "
            f"the pool has {curves.kv_places:,} {curves.kv_unit}."
        )
    if curves.window is not None:
        words.append("What lies outside the steady window is grey.")
    return " ".join(words)


def _how_drawn(curve: Stretches, what: str, detail: Detail) -> str:
    count = curve.num_drawn_from
    if curve.peaks is None:
        return f"All {count:,} {what} are drawn."
    return f"{count:,} {what} in {detail.num_bins} bins: mean over time, and a thin line at the most in each bin."


def _gantt_words(bars: Gantt) -> str:
    if bars.shows_all:
        which = f"All {bars.num_requests:,} requests."
    else:
        first, last = bars.bars[0].number, bars.bars[-1].number
        state = "waited" if bars.counts_waiting else "ran"
        which = (
            f"{len(bars.bars)} of {bars.num_requests:,} requests, numbers {first:,} to {last:,} by arrival: "
            f"those around {bars.busiest_at / 1e6:,.3f} s, when most {state} ({bars.num_at_busiest:,})."
        )
    stall = (
        f"A stall is the largest gap between two tokens of a request, from {STALL_FACTOR:g} times the median gap on."
    )
    put_back = sum(bar.preemptions > 0 for bar in bars.bars)
    preempted = f" {put_back} of them lost their place meanwhile, which the bars do not show." if put_back else ""
    return f"{which} {stall}{preempted}"
