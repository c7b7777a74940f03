"""What the terminal shows of profiles and probes."""

from collections.abc import Iterator
from typing import Final

from arriero.record.cpu_lab.perf_comparison import CaseCounters, CaseHot, CounterFigure, HotFunction, PerfComparison
from arriero.record.cpu_lab.perf_counters import Probe
from arriero.record.cpu_lab.targets import Candidate, Targets

_SHOWN: Final = 10


def comparison_lines(found: PerfComparison) -> Iterator[str]:
    """Counters, ratios, the first functions, and what has no figures."""
    yield "PROFILED; a whole invocation is start, loading, prefill and decode together"
    for counted in found.counters:
        yield from _counter_lines(counted)
    for each in found.ratios:
        if each.value is not None:
            yield f"{each.target} / {each.reference}, {each.name}: {each.value:.3f} ({each.workload}, {each.mode})"
    for case in found.hot:
        yield from _hot_lines(case)
    for run in found.runs:
        for name, reason in run.failures:
            yield f"no figures of {name}: {reason}"


def _counter_lines(case: CaseCounters) -> Iterator[str]:
    yield f"{case.case.case_id} ({case.mode}, {case.scope})"
    for figure in (*case.counters, *case.quotients):
        yield f"  {figure.name:<28} {_value(figure)}"


def _value(figure: CounterFigure) -> str:
    if figure.value is None:
        return f"none: {figure.reason}"
    shown = f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.4g}"
    unit = f" {figure.unit}" if figure.unit else ""
    partly = figure.running_percent is not None and figure.running_percent < 100.0
    return f"{shown}{unit} (n = {figure.num})" + (
        f", counted {figure.running_percent:.0f} % of the time" if partly else ""
    )


def _hot_lines(case: CaseHot) -> Iterator[str]:
    found = case.attribution
    yield f"{case.case.case_id}: {found.measure} by {case.mode}, {found.scope}, {found.total:,} in all"
    if found.note:
        yield f"  {found.note}"
    for each in case.functions[:_SHOWN]:
        bound = "" if each.bound is None else f"  at most {each.bound:.2f}x"
        what = f"{each.symbol[:64]} [{each.shared_object}]  ({each.family}){_caller(each)}"
        yield f"  {100 * each.share:6.2f} %  {what}{bound}"
    yield f"  first five {100 * case.top_5:.2f} %, first twenty {100 * case.top_20:.2f} %"
    for share in case.families:
        yield f"  {100 * share.share:6.2f} %  {share.family}"


def _caller(each: HotFunction) -> str:
    return "" if each.called_by is None else f", called by {each.called_by[:48]}"


def probe_lines(probe: Probe) -> Iterator[str]:
    """One line an event."""
    paranoid = "unknown" if probe.paranoid is None else probe.paranoid
    yield f"{probe.tool or 'no perf'}, kernel.perf_event_paranoid {paranoid}"
    if probe.reason is not None:
        yield probe.reason
    width = max((len(each.event) for each in probe.events), default=0)
    for each in probe.events:
        yield f"{each.event:<{width}}  {each.kind}" + (f": {each.reason}" if each.reason else "")


def target_lines(targets: Targets) -> Iterator[str]:
    """Candidates, the hottest first."""
    yield (
        f"{targets.case.case_id}: shares PROFILED ({targets.measure}, {targets.scope}); what is said of the code is "
        "counted in the file"
    )
    for each in targets.candidates:
        yield from _candidate_lines(each)


def _candidate_lines(each: Candidate) -> Iterator[str]:
    bound = "no bound" if each.bound is None else f"at most {each.bound:.3f}x"
    yield f"{each.rank:>2}. {100 * each.share:.2f} %, {bound}  {each.symbol} [{each.shared_object}]  ({each.family})"
    if each.called_by:
        yield f"      called by {'; '.join(each.called_by)}"
    if each.already:
        yield f"      does already: {'; '.join(each.already)}"
    if each.openings:
        yield f"      leaves: {'; '.join(each.openings)}"
    verdict = "next" if each.rejected_by is None else f"rejected at the gate `{each.rejected_by}`"
    yield f"      {verdict}: {each.reason}"
