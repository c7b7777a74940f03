import pytest

from arriero.core.errors import ContextTooLong
from arriero.core.events import AdmissionSource, Admitted, Queued, Rejected
from arriero.core.ids import RequestId
from arriero.core.plan import DecodeRow
from arriero.core.request import FinishReason, Request
from arriero.scheduler.draft import PrefillBudget
from tests.unit.sim.gate_run import GateRun, gate, preload_mix

PLAN = (1, 4, 7, 2, 5, 8)
FREED = sorted(PLAN)


def test_g8_waiters_take_the_slots_that_cancels_freed() -> None:
    run = gate(93, num_preloaded=93).run
    preload_mix(run, 93)
    for request_id in range(93, 99):
        run.submit(request_id, 64)
    run.run(run.cancel_after(16, *PLAN))
    assert list(run.admissions(AdmissionSource.CANCEL_FREED)) == [
        (17, request_id, sequence_id) for request_id, sequence_id in zip(range(93, 99), FREED, strict=True)
    ]
    admitted = [run.lives[each] for each in range(93, 99)]
    assert {life.end.step for life in admitted} == {80}
    assert {life.pos_max for life in admitted} == {68}
    assert [life.start.previous_request_id for life in admitted] == FREED
    shape = run.plan_of(17).shape
    assert (shape.prefill_rows, shape.decode_rows, shape.num_rows) == (36, 56, 92)
    ends = [life.end for life in run.lives.values()]
    assert sum(end.reason is FinishReason.LENGTH for end in ends if end.request.preloaded) == 87
    assert sum(end.reason is FinishReason.CANCELLED for end in ends) == 6
    assert sum(end.reason is FinishReason.LENGTH for end in ends if not end.request.preloaded) == 6
    assert run.count(Queued) == run.count(Admitted) == 99
    decode_rows = [row for plan in run.plans for row in plan.rows if isinstance(row, DecodeRow)]
    assert sum(row.request.request_id >= 93 for row in decode_rows) == 378


def test_g8_queue_depth_over_255_steps() -> None:
    run = gate(93, num_preloaded=93).run
    preload_mix(run, 93)
    for request_id in range(93, 99):
        run.submit(request_id, 64)
    run.run(run.cancel_after(16, *PLAN))
    depths = sorted(plan.num_waiting for plan in run.plans if plan.step >= 1 and plan.rows)
    assert len(depths) == 255
    assert (depths[127], depths[242], depths[-1]) == (0, 6, 6)


@pytest.mark.parametrize("reuse", [True, False])
def test_g9_completed_slots_are_used_again_only_if_reuse_is_on(reuse: bool) -> None:  # noqa: FBT001 - a parameter
    published = gate(90, num_preloaded=90, reuse_completed=reuse)
    run = published.run
    preload_mix(run, 90)
    for request_id in range(90, 99):
        run.submit(request_id, 8)
    run.run()
    admitted = list(run.admissions(AdmissionSource.COMPLETION_FREED))
    assert admitted == ([(8, 90 + number, 3 * number) for number in range(9)] if reuse else [])
    assert published.ids.pool_size(AdmissionSource.COMPLETION_FREED) == (21 if reuse else 0)
    assert all((life.finished is not None) == (reuse or each < 90) for each, life in run.lives.items())


def test_g10_external_arrivals_released_at_8_are_admitted_at_17() -> None:
    run = gate(93, num_preloaded=93).run
    preload_mix(run, 93)
    cancel = run.cancel_after(16, *PLAN)

    def boundary(step: int) -> None:
        cancel(step)
        if step == 8:
            for request_id in range(93, 99):
                run.submit(request_id, 64)

    run.run(boundary)
    assert run.plan_of(8).num_waiting == 0
    assert run.plan_of(9).num_waiting == 6
    assert [(step, sequence_id) for step, _, sequence_id in run.admissions(AdmissionSource.CANCEL_FREED)] == [
        (17, sequence_id) for sequence_id in FREED
    ]
    assert all(not run.lives[each].end.request.preloaded for each in range(93, 99))


def test_g11_slots_of_two_sources_are_taken_in_the_order_of_the_pools() -> None:
    published = gate(84, num_preloaded=84, reuse_completed=True)
    run = published.run
    preload_mix(run, 84)
    for request_id in range(84, 93):
        run.submit(request_id, 8)
    pool_sizes: dict[int, int] = {}
    cancel = run.cancel_after(16, *PLAN)

    def boundary(step: int) -> None:
        pool_sizes[step] = published.ids.pool_size(AdmissionSource.COMPLETION_FREED)
        cancel(step)
        if step == 16:
            for request_id in range(93, 99):
                run.submit(request_id, 64)

    run.run(boundary)
    assert pool_sizes[7] == 28
    assert list(run.admissions(AdmissionSource.COMPLETION_FREED)) == [(8, 84 + n, 3 * n) for n in range(9)]
    assert list(run.admissions(AdmissionSource.CANCEL_FREED)) == [(17, 93 + n, FREED[n]) for n in range(6)]
    assert published.ids.pool_size(AdmissionSource.COMPLETION_FREED) == 19


def test_g12_a_slot_of_idle_origin_comes_back_after_a_cancel_and_a_completion() -> None:
    run = gate(2, num_preloaded=1).run
    run.submit(0, 256, preloaded=True)
    run.one_step()
    run.submit(1, 64)
    run.one_step()
    run.cancel(1)
    run.submit(2, 8)
    run.submit(3, 8)
    run.run()
    lives = [run.lives[each] for each in (1, 2, 3)]
    assert [life.start.sequence_id for life in lives] == [1, 1, 1]
    assert [life.start.source for life in lives] == [
        AdmissionSource.INITIAL_IDLE, AdmissionSource.CANCEL_FREED, AdmissionSource.INITIAL_IDLE
    ]  # fmt: skip
    assert lives[2].end.reason is FinishReason.LENGTH


def test_g16_one_slot_hosts_three_requests_in_turn() -> None:
    run = gate(1, num_preloaded=1, reuse_completed=True).run
    for request_id in range(3):
        run.submit(request_id, 8, preloaded=request_id == 0)
    run.run()
    lives = [run.lives[each] for each in range(3)]
    assert [life.start.step for life in lives] == [0, 8, 16]
    assert [life.end.step for life in lives] == [7, 15, 23]
    assert [life.start.previous_request_id for life in lives] == [None, 0, 1]
    assert sum(len(life.tokens) for life in lives) == 24


@pytest.mark.parametrize("cancelled", [True, False])
@pytest.mark.parametrize("external", [True, False])
def test_g16_each_arrival_gets_its_own_stream_through_either_source(
    cancelled: bool,  # noqa: FBT001 - a parameter
    external: bool,  # noqa: FBT001 - a parameter
) -> None:
    run = gate(1, num_preloaded=1, reuse_completed=True).run
    run.submit(0, 64 if cancelled else 8, preloaded=True)
    if not external:
        run.submit(1, 8)
    cancel = run.cancel_after(8, *([0] if cancelled else []))

    def boundary(step: int) -> None:
        cancel(step)
        if external and step == 4:
            run.submit(1, 8)

    run.run(boundary)
    life = run.lives[1]
    observed = run.lives[0].observed
    assert (observed.step if observed else None) == (8 if cancelled else None)
    assert life.start.step == (9 if cancelled else 8)
    source = AdmissionSource.CANCEL_FREED if cancelled else AdmissionSource.COMPLETION_FREED
    assert life.start.source is source
    assert life.tokens == list(range(8))
    assert life.end.step == life.start.step + 7


def _long_pair(budget: PrefillBudget, anchor_budget: int = 40) -> GateRun:
    run = gate(3, budget=budget).run
    run.submit(0, anchor_budget)
    run.one_step()
    run.one_step()
    run.one_step()
    for request_id in (1, 2):
        run.submit(request_id, 4, prompt=tuple(range(40)))
    run.run()
    return run


def test_g20_decode_and_chunked_prefill_overlap() -> None:
    run = _long_pair(PrefillBudget(per_sequence=8))
    both = [plan for plan in run.plans if plan.shape.prefill_rows and plan.shape.decode_rows]
    assert len(both) >= 5
    other = gate(3, budget=PrefillBudget(per_sequence=8)).run
    other.submit(0, 40)
    for _ in range(3):
        other.one_step()
    for request_id in (1, 2):
        other.submit(request_id, 4, prompt=tuple(range(100, 140)))
    other.run()
    assert other.lives[0].tokens == run.lives[0].tokens
    assert other.lives[0].token_steps == run.lives[0].token_steps


def test_g22_a_cap_for_each_sequence_alone_allows_twice_as_many_rows() -> None:
    run = _long_pair(PrefillBudget(per_sequence=8))
    rows = [plan.shape.prefill_rows for plan in run.plans if plan.step > 3 and plan.shape.prefill_rows]
    assert max(rows) == 16
    assert set(run.prefill_rows(1)) == set(run.prefill_rows(2)) == {8}


def test_g22_a_cap_for_the_step_holds_in_total_and_the_older_prompt_is_first() -> None:
    run = _long_pair(PrefillBudget(per_sequence=8, per_step=10))
    rows = [plan.shape.prefill_rows for plan in run.plans if plan.step > 3 and plan.shape.prefill_rows]
    assert max(rows) == 10
    assert sum(rows) == 80
    assert run.lives[1].token_steps[0] < run.lives[2].token_steps[0]
    assert {run.lives[each].end.reason for each in (1, 2)} == {FinishReason.LENGTH}
    assert set(run.prefill_rows(1)) == {8}


def test_g22_decode_rows_are_not_affected() -> None:
    run = _long_pair(PrefillBudget(per_step=10))
    assert run.lives[0].token_steps == list(range(1, 41))


def test_g47_prompts_beyond_the_batch_wait_for_the_next_step_and_all_complete() -> None:
    small, large = gate(16, num_rows=20).run, gate(16, num_rows=1024).run
    for run in (small, large):
        for request_id in range(16):
            run.submit(request_id, 8)
        run.run()
    assert max(plan.shape.num_rows for plan in small.plans) == 20
    assert {life.end.reason for life in small.lives.values()} == {FinishReason.LENGTH}
    assert {each: life.tokens for each, life in small.lives.items()} == {
        each: life.tokens for each, life in large.lives.items()
    }


def test_g48_what_fits_exactly_completes_and_one_more_is_refused() -> None:
    run = gate(1).run
    run.submit(0, 64, prompt=tuple(range(32_768 - 63)))
    run.run()
    assert run.lives[0].end.num_decoded == 64
    assert run.lives[0].pos_max == 32_767
    request = Request(request_id=RequestId(1), prompt=tuple(range(32_768 - 62)), max_tokens=64, arrival_at=0)
    (event,) = run.scheduler.submit(request, run.step)
    assert isinstance(event, Rejected)
    assert isinstance(event.error, ContextTooLong)
    assert (event.error.needed, event.error.limit) == (32_769, 32_768)
    assert not run.scheduler.has_work
