"""Whatever steps cost: none in which somebody decodes takes longer than its target without saying why, and all end.

The machine is the one that the scheduler thinks it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arriero.core.events import Finished
from arriero.core.ids import RequestId
from arriero.core.plan import Cap, DecodeRow, PrefillChunk
from arriero.core.request import Request
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import PassRules, Stretch
from arriero.costmodel.terms import TERMS, PassCosts
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import BySlot, DecodeFirst, LeadersFirst, PhasesApart, Planner
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.step_target import StepTarget
from arriero.sim.simulator import SimulatedStep, Simulator, Submission
from arriero.testing.costs import FUSED, calibrated
from arriero.testing.simulation import CountingAnswers

PLANNERS = {"decode first": DecodeFirst, "leaders first": LeadersFirst, "by slot": BySlot}
terms = st.lists(st.floats(0, 100), min_size=len(TERMS), max_size=len(TERMS)).map(lambda each: PassCosts(tuple(each)))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A machine, a target and requests.

    Attributes:
        asks: prompt tokens, output tokens and arrival of each request.
        is_on: whether the scheduler has the target.
    """

    target: StepTarget
    num_rows: int
    per_step: int | None
    asks: Sequence[tuple[int, int, int]]
    is_on: bool = True

    @property
    def cost(self) -> CalibratedCost:
        """Of the scheduler, and of the machine."""
        return self.target.cost

    def run(self, planner: Planner) -> list[SimulatedStep]:
        """Everything that happens."""
        unified, limit = self.cost.rules.unified, 400
        layout = CellLayout(
            num_sequences=4, num_cells=600 if unified else 4 * limit, sequence_limit=limit, unified=unified
        )
        scheduler = Scheduler(
            kv=CellManager(layout),
            planner=planner,
            policy=FirstComeFirstServed(),
            limits=SchedulerLimits(
                num_rows=self.num_rows,
                budget=PrefillBudget(per_step=self.per_step, within=self.target if self.is_on else None),
                cost=self.cost,
            ),
        )
        simulator = Simulator(scheduler=scheduler, cost=self.cost, answers=CountingAnswers(), check=True)
        messages = [
            Submission(
                Request(request_id=RequestId(number), prompt=(number,) * prompt, max_tokens=answer, arrival_at=at)
            )
            for number, (prompt, answer, at) in enumerate(self.asks)
        ]
        steps = list(simulator.run(messages))
        ended = [event for step in steps for event in step.events if isinstance(event, Finished)]
        assert len(ended) == len(self.asks)
        return steps


@st.composite
def cases(draw: st.DrawFn, *, separate: bool = False) -> Case:
    """A target somewhere between what two decode rows take and what a long chunk beside them does."""
    unified = not separate and draw(st.booleans())
    micro_batch = draw(st.sampled_from([16, 64, 96, 512]))
    rules = PassRules(micro_batch=micro_batch, unified=unified, stream_cells=600 if unified else 400)
    cost = calibrated(draw(st.one_of(terms, st.just(FUSED))), rules=rules, spread=draw(st.sampled_from([0.0, 0.1])))
    rows = [Stretch(each, 40, 1, wants_logits=True) for each in range(2)]
    least, most = cost.time(rows), cost.time([*rows, Stretch(2, 0, 200, wants_logits=True)])
    part = draw(st.floats(-0.3, 1.2))
    target = StepTarget(
        limit=max(1, round(least + part * (most - least))), cost=cost, least_rows=draw(st.integers(3, 40))
    )
    asks = draw(
        st.lists(st.tuples(st.integers(1, 200), st.integers(1, 12), st.integers(0, 9 * least)), min_size=1, max_size=5)
    )
    return Case(
        target=target,
        num_rows=draw(st.sampled_from([8, 64, 512])),
        per_step=draw(st.none() | st.integers(3, 100)),
        asks=sorted(asks, key=lambda ask: ask[2]),
    )


@given(cases(), st.sampled_from(sorted(PLANNERS)))
def test_no_step_with_decode_rows_exceeds_the_target_unless_its_prompt_has_its_least_rows(
    case: Case, planner: str
) -> None:
    for step in case.run(PLANNERS[planner]()):
        plan, shape = step.plan, step.plan.shape
        if not shape.decode_rows or not shape.prefill_rows:
            assert plan.over_target is None
            continue
        is_over = step.ended_at - step.began_at > case.target.planned
        assert is_over == (plan.over_target is not None)
        assert not is_over or shape.prefill_rows <= case.target.least_rows


@given(cases(separate=True))
def test_where_phases_are_apart_a_chunk_and_the_decode_step_behind_it_keep_it_together(case: Case) -> None:
    max_chunk = max(3, min(case.cost.rules.micro_batch, case.num_rows))
    steps = [step for step in case.run(PhasesApart(max_chunk=max_chunk)) if step.plan.rows]
    for one, other in pairwise(steps):
        prompts = {row.sequence_id for row in one.plan.rows if isinstance(row, PrefillChunk)}
        waited = {row.sequence_id for row in other.plan.rows if isinstance(row, DecodeRow)} - prompts
        if prompts and waited and other.began_at == one.ended_at and not one.plan.shape.decode_rows:
            is_over = other.ended_at - one.began_at > case.target.planned
            assert not is_over or one.plan.shape.prefill_rows <= case.target.least_rows


@given(cases())
def test_a_target_without_end_changes_nothing(case: Case) -> None:
    free = replace(case, target=replace(case.target, limit=10**15))
    steps = free.run(DecodeFirst())
    assert not any(Cap.ITL_TARGET in step.plan.caps_hit for step in steps)
    without = replace(case, is_on=False).run(DecodeFirst())
    assert [step.plan.rows for step in steps] == [step.plan.rows for step in without]
