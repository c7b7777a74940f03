"""What results of the load generator must share before their figures are held against one another."""

from collections.abc import Sequence
from typing import Final

from arriero.record.bench_result import why_not_comparable
from arriero.report.bench_view import BenchView
from arriero.report.comparison import Comparison, compared

WORKLOAD: Final = "workload"


def comparison_of(views: Sequence[BenchView]) -> Comparison:
    """The schedules decide: their hashes cover times, prompts, lengths and cancellations of every point.

    An invalid result is never compared, whatever it was asked.
    """
    reasons = {view.name: why_not_comparable(view.result) for view in views}
    excluded = {name: why for name, why in reasons.items() if why is not None}
    return compared([view.name for view in views], [_traits(view) for view in views], WORKLOAD, excluded)


def _traits(view: BenchView) -> dict[str, str | None]:
    result = view.result
    machine = result.machine
    objectives = {str(point.summary.attainment and point.summary.attainment.objectives) for point in view.points}
    return {
        WORKLOAD: " ".join(point.point.schedule.sha256 for point in view.points),
        "evidence": result.evidence.value,
        "machine": f"{machine.cpu}, {machine.cores} cores, {machine.kernel}",
        "objectives": "; ".join(sorted(objectives)),
        "code": result.run.code_sha256,
        "target": f"{result.target.name}, {result.target.model or 'unknown model'}",
    }
