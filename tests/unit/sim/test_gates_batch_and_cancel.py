from collections import Counter

from arriero.core.events import (
    AdmissionSource,
    CancelById,
    CancelByToken,
    CancelObserved,
    CancelWaiting,
    DropSequence,
    Finished,
    IgnoreCause,
)
from arriero.core.ids import Epoch, RequestId
from arriero.core.request import CancelReason, FinishReason, RequestState
from arriero.scheduler.draft import PrefillBudget
from tests.unit.sim.gate_run import PROMPT, gate, preload_mix

PLAN = (1, 4, 7, 2, 5, 8)


def test_g1_three_budgets_finish_at_7_63_255() -> None:
    run = gate(3, num_preloaded=3).run
    preload_mix(run, 3)
    run.run()
    assert [run.lives[each].end.step for each in range(3)] == [7, 63, 255]
    assert [run.lives[each].pos_max for each in range(3)] == [12, 68, 260]
    assert run.lives[2].tokens[:64] == run.lives[1].tokens
    assert run.lives[1].tokens[:8] == run.lives[0].tokens
    assert {run.lives[each].end.reason for each in range(3)} == {FinishReason.LENGTH}


def test_g1_clearing_one_leaves_the_others() -> None:
    run = gate(3, num_preloaded=3).run
    preload_mix(run, 3)
    run.run()
    assert [event.sequence_id for event in run.events if isinstance(event, DropSequence)] == [0, 1, 2]
    assert [row.start for row in run.plan_of(8).rows] == [13, 13]


def test_g2_99_sequences_take_256_decode_calls_and_repeat_themselves() -> None:
    def once() -> list[object]:
        run = gate(99, num_preloaded=99).run
        preload_mix(run, 99)
        run.run()
        assert sum(bool(plan.rows) for plan in run.plans) == 256
        assert run.plan_of(0).shape.prefill_rows == 99 * 6
        ends = Counter((life.end.step, tuple(life.tokens)) for life in run.lives.values())
        assert sorted(ends.values()) == [33, 33, 33]
        assert sorted(step for step, _ in ends) == [7, 63, 255]
        return list(run.events)

    assert once() == once()


def test_g3_cancel_plan_after_16_tokens_is_observed_at_16() -> None:
    run = gate(99, num_preloaded=99).run
    preload_mix(run, 99)
    run.run(run.cancel_after(16, *PLAN))
    cancelled = {each: life for each, life in run.lives.items() if life.observed is not None}
    assert set(cancelled) == set(PLAN)
    observed = [life.observed for life in cancelled.values() if life.observed is not None]
    assert {event.step for event in observed} == {16}
    assert {event.num_decoded for event in observed} == {16}
    assert {life.pos_max for life in cancelled.values()} == {20}
    assert {life.end.num_decoded for life in cancelled.values()} == {16}
    reasons = Counter(life.end.reason for life in run.lives.values())
    assert reasons == {FinishReason.LENGTH: 93, FinishReason.CANCELLED: 6}
    assert run.count(CancelObserved) == 6
    late = [row for plan in run.plans if plan.step >= 16 for row in plan.rows if row.request.request_id in PLAN]
    assert late == []


def test_g3_saves_864_decode_rows() -> None:
    whole, cut = gate(99, num_preloaded=99).run, gate(99, num_preloaded=99).run
    for run in (whole, cut):
        preload_mix(run, 99)
    whole.run()
    cut.run(cut.cancel_after(16, *PLAN))
    rows = [sum(plan.shape.decode_rows for plan in run.plans) for run in (whole, cut)]
    assert rows[0] - rows[1] == 3 * (64 - 16) + 3 * (256 - 16) == 864


def test_g4_queued_cancel_without_a_slot_ends_at_once() -> None:
    run = gate(1, num_preloaded=1).run
    run.submit(0, 64, preloaded=True)
    run.one_step()
    run.submit(7, 64)
    run.cancel(7)
    end = run.lives[7].end
    assert (end.reason, end.sequence_id, end.num_decoded, end.state) == (
        FinishReason.CANCELLED, None, 0, RequestState.WAITING
    )  # fmt: skip
    run.run()
    counts = run.scheduler.snapshot().cancels
    assert (counts.calls, counts.queued, counts.active_observed) == (1, 1, 0)
    assert run.lives[7].admitted is None


def test_g5_active_cancel_is_observed_at_the_next_plan_and_clears_the_sequence_first() -> None:
    run = gate(2, num_preloaded=2).run
    run.submit(0, 64, preloaded=True)
    run.submit(1, 64, preloaded=True)
    run.one_step()
    run.post(CancelById(RequestId(0), CancelReason.DISCONNECT))
    plan = run.one_step()
    assert [type(event) for event in plan.events] == [CancelObserved, DropSequence, Finished]
    assert [row.sequence_id for row in plan.rows] == [1]
    assert run.lives[0].end.cancel_reason is CancelReason.DISCONNECT
    run.run()
    assert run.lives[1].end.num_decoded == 64


def test_g6_a_stale_token_never_cancels_the_second_life_of_an_id() -> None:
    run = gate(1).run
    run.submit(42, 32, epoch=1)
    run.run()
    run.submit(42, 32, epoch=2)
    run.one_step()
    run.post(CancelByToken(RequestId(42), Epoch(1)))
    run.run()
    assert run.lives[42].end.num_decoded == 32
    counts = run.scheduler.snapshot().cancels
    assert (counts.stale_epoch, counts.unknown, counts.active_observed) == (1, 0, 0)


def test_g7_duplicate_and_unknown_cancels_are_counted_and_harm_nobody() -> None:
    run = gate(1).run
    run.submit(1, 8, epoch=1)
    run.one_step()
    run.cancel(1, 1, 1)
    run.cancel(99)
    run.run()
    run.post(CancelWaiting())
    counts = run.scheduler.snapshot().cancels
    assert (counts.calls, counts.duplicates, counts.unknown, counts.active_observed) == (4, 2, 1, 1)


def test_g7_a_token_of_an_ended_life_is_unknown_at_once() -> None:
    run = gate(1).run
    run.submit(1, 8, epoch=1)
    run.run()
    (ignored,) = run.scheduler.cancel(CancelByToken(RequestId(1), Epoch(1)), run.step)
    assert getattr(ignored, "cause", None) is IgnoreCause.UNKNOWN


def test_g7_a_cancel_before_its_submission_resolves_the_arrival_as_a_queued_cancel() -> None:
    run = gate(1).run
    run.cancel(5)
    run.submit(5, 8)
    assert run.lives[5].end.reason is FinishReason.CANCELLED
    counts = run.scheduler.snapshot().cancels
    assert (counts.calls, counts.queued, counts.unknown) == (1, 1, 0)
    assert not run.scheduler.has_work


def test_g13_a_waiter_that_cannot_be_admitted_ends_aborted_at_shutdown() -> None:
    run = gate(1, num_preloaded=1).run
    run.submit(0, 8, preloaded=True)
    run.submit(1, 8)
    run.run()
    assert run.lives[0].end.reason is FinishReason.LENGTH
    assert run.lives[1].finished is None
    run.post(CancelWaiting())
    end = run.lives[1].end
    assert (end.reason, end.cancel_reason, end.sequence_id) == (FinishReason.ABORTED, None, None)
    assert run.scheduler.snapshot().cancels.queued == 0


def test_g18_chunks_of_a_six_token_prompt() -> None:
    for cap, chunks in ((2, [2, 2, 2]), (4, [4, 2]), (None, [6]), (6, [6]), (7, [6])):
        run = gate(1, budget=PrefillBudget(per_sequence=cap)).run
        run.submit(0, 8)
        run.run()
        assert run.prefill_rows(0) == chunks
        assert run.lives[0].token_steps[0] == len(chunks) == -(-len(PROMPT) // (cap or len(PROMPT)))
        assert run.lives[0].end.step == run.lives[0].start.step + len(chunks) + 8 - 2
        assert run.lives[0].tokens == list(range(8))


def test_g19_a_cancel_after_the_first_chunk_leaves_no_token_and_a_clean_slot() -> None:
    run = gate(1, budget=PrefillBudget(per_sequence=2)).run
    run.submit(0, 8)
    run.submit(1, 8)
    run.one_step()
    run.cancel(0)
    run.run()
    assert run.prefill_rows(0) == [2]
    end = run.lives[0].end
    assert (run.lives[0].tokens, end.reason, end.num_decoded, end.state) == (
        [], FinishReason.CANCELLED, 0, RequestState.PREFILLING
    )  # fmt: skip
    assert (run.lives[1].start.source, run.lives[1].start.previous_request_id) == (AdmissionSource.CANCEL_FREED, 0)
    assert run.prefill_rows(1) == [2, 2, 2]
    assert run.lives[1].end.num_decoded == 8
