import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import ConfigError
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk
from arriero.core.request import FinishReason, Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.draft import UNMETERED, PrefillBudget
from arriero.scheduler.planners import DecodeFirst, PhasesApart, Planner, answers_first
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.progress import Progress
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.sim.simulator import SimulatedStep, Simulator, Submission
from arriero.testing.simulation import CountingAnswers, LinearCost

WORKLOADS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 10), st.integers(0, 40)), min_size=1, max_size=8)


def serve(
    planner: Planner,
    workload: list[tuple[int, int, int]],
    *,
    num_cells: int = 4 * 40,
    budget: PrefillBudget = UNMETERED,
    num_rows: int = 16,
) -> list[SimulatedStep]:
    scheduler = Scheduler(
        kv=CellManager(CellLayout(num_sequences=4, num_cells=num_cells, sequence_limit=40, unified=True)),
        planner=planner,
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=num_rows, budget=budget, headroom_per_sequence=0),
    )
    submissions = [
        Submission(
            Request(request_id=RequestId(each), prompt=tuple(range(prompt)), max_tokens=output, arrival_at=arrival)
        )
        for each, (prompt, output, arrival) in enumerate(workload)
    ]
    sim = Simulator(scheduler=scheduler, cost=LinearCost(5), answers=CountingAnswers(), check=True)
    steps = list(sim.run(submissions))
    assert not scheduler.has_work
    return steps


@pytest.mark.parametrize("max_chunk", [-1, 0, 2])
def test_a_micro_batch_that_cannot_avoid_single_rows_is_refused(max_chunk: int) -> None:
    with pytest.raises(ConfigError, match="exact mode needs 3"):
        PhasesApart(max_chunk=max_chunk)


@given(WORKLOADS, st.integers(3, 9), st.sampled_from([40, 50, 160]))
def test_phases_apart_never_mix_and_no_chunk_of_a_prompt_has_one_row(
    workload: list[tuple[int, int, int]], max_chunk: int, num_cells: int
) -> None:
    answers = 0
    for step in serve(PhasesApart(max_chunk=max_chunk), workload, num_cells=num_cells):
        prompts = [row for row in step.plan.rows if row.start < len(row.request.prompt)]
        if prompts:
            (chunk,) = step.plan.rows
            assert isinstance(chunk, PrefillChunk)
            assert chunk.start + chunk.num_rows <= len(chunk.request.prompt)
            assert 2 <= chunk.num_rows <= max_chunk or len(chunk.request.prompt) == 1
        else:
            answers += bool(step.plan.rows)
            assert all(row.num_rows == 1 for row in step.plan.rows)
    assert answers >= max(output for _, output, _ in workload) - 1


@given(WORKLOADS, st.integers(3, 9))
def test_phases_apart_cut_a_prompt_at_the_same_places_in_any_company(
    workload: list[tuple[int, int, int]], max_chunk: int
) -> None:
    def cuts(steps: list[SimulatedStep], request_id: int) -> list[int]:
        rows = [row for step in steps for row in step.plan.rows if row.request.request_id == request_id]
        return [row.num_rows for row in rows if row.start < len(row.request.prompt)]

    together = serve(PhasesApart(max_chunk=max_chunk), workload)
    for each, work in enumerate(workload):
        assert cuts(together, each) == cuts(serve(PhasesApart(max_chunk=max_chunk), [work]), 0)


def test_phases_alternate_while_both_have_work() -> None:
    steps = serve(PhasesApart(max_chunk=4), [(2, 10, 0), (16, 2, 1)])
    kinds = ["D" if isinstance(step.plan.rows[0], DecodeRow) else "P" for step in steps if step.plan.rows]
    assert "".join(kinds[:9]) == "PDPDPDPDP"


@pytest.mark.parametrize("cap", [1, 2])
def test_caps_too_small_for_exact_chunks_still_let_a_prompt_get_on(cap: int) -> None:
    steps = serve(PhasesApart(max_chunk=8), [(9, 2, 0)], budget=PrefillBudget(per_step=cap))
    assert steps[-1].plan.rows == ()
    assert sum(step.plan.shape.prefill_rows for step in steps) == 9


@given(WORKLOADS, st.sampled_from([40, 50, 160]), st.none() | st.integers(1, 6))
def test_both_planners_give_everybody_the_whole_answer(
    workload: list[tuple[int, int, int]], num_cells: int, per_step: int | None
) -> None:
    for planner in (DecodeFirst(), PhasesApart(max_chunk=4)):
        steps = serve(planner, workload, num_cells=num_cells, budget=PrefillBudget(per_step=per_step))
        ends = [event for step in steps for event in step.events if hasattr(event, "reason")]
        assert len(ends) == len(workload)
        assert {getattr(end, "reason", None) for end in ends} == {FinishReason.LENGTH}


def test_who_lacks_one_token_for_the_next_of_its_answer_comes_before_prompts() -> None:
    def prefilling(number: int, *, prompt: int, computed: int, said: int = 0) -> Progress:
        request = Request(request_id=RequestId(number), prompt=(1,) * prompt, max_tokens=9, arrival_at=0)
        progress = Progress(request, (number,))
        for _ in range(said):
            progress.admit(SequenceId(number), 0)
            progress.append(7)
            progress.preempt()
        progress.admit(SequenceId(number), number, computed)
        return progress

    prompt, last_row = prefilling(1, prompt=20, computed=4), prefilling(2, prompt=5, computed=4)
    again, back = prefilling(3, prompt=5, computed=2, said=2), prefilling(4, prompt=5, computed=6, said=2)
    assert answers_first([prompt, last_row, again, back]) == [back, prompt, last_row, again]
    assert answers_first([prompt]) == [prompt]
    assert answers_first([]) == []
