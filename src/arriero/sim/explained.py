"""Where the time of simulated requests went, by the fold that explains those of a server."""

from collections.abc import Iterable, Iterator, Sequence

from arriero.core.plan import StepShape
from arriero.costmodel.models import CostModel
from arriero.metrics.explain import Explainer
from arriero.metrics.explain_events import StepMoments, follow_pass
from arriero.metrics.explain_shares import RowsTime, Work
from arriero.sim.simulator import SimulatedStep


def explained(steps: Iterable[SimulatedStep], explainer: Explainer) -> Iterator[SimulatedStep]:
    """Pass the steps of one run on, and tell them; whoever is alive after the last one did not finish.

    A simulated step is computed from its beginning to its end: no time is the host's.

    Args:
        steps: of a run whose times are whole microseconds.
        explainer: fresh.
    """
    for step in steps:
        began_at, ended_at, times = int(step.began_at), int(step.ended_at), max(1, len(step.ends))
        first_end = int(step.ends[0]) if times > 1 else None
        moments = StepMoments(began_at, ended_at, ended_at - began_at, times, first_end)
        follow_pass(explainer, step.plan, step.outcome, step.events, moments)
        yield step
    explainer.cut()


def shape_time(cost: CostModel) -> RowsTime:
    """What a cost model that knows shapes only says of rows, so that steps are divided by what moves the clock."""

    def time_of(rows: Sequence[Work]) -> float:
        prompts = [row for row in rows if not row.is_decode]
        num_rows = sum(row.num_rows for row in prompts)
        context = sum(row.start for row in rows)
        return cost.step_time(StepShape(len(rows) - len(prompts), num_rows, len(prompts), context, len(rows)))

    return time_of
