"""G8 to G14: who gets which slot, when, and where the slot came from.

Slots are handed out from the published pools here, so that the published step numbers and slot numbers hold. There are
as many slots as preloaded requests that start at once; whatever else comes has to wait.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from math import ceil

from arriero.core.events import AdmissionSource, Admitted, Finished, Queued
from arriero.core.request import FinishReason
from arriero.engine.handle import CloseReason, Result
from arriero.engine.options import EngineOptions
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.cancel import check_queued
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.figures import distinct, spread
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.primitive import check_three
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.watch import ArrivalPlan, CancelPlan


@asynccontextmanager
async def rig_of_mix(
    context: GateContext, findings: Findings, num_active: int, *, reuse_completed: bool
) -> AsyncGenerator[Rig]:
    """So many slots and preloaded requests, budgets dealt round-robin."""
    size = context.size
    options = EngineOptions(keep_alive=False, published_pools=reuse_completed)
    async with Rig(context, findings, context.shape_of_mix(num_active), options) as rig:
        rig.preload(context.prompt, *(size.budget_of(number) for number in range(num_active)))
        yield rig


async def check_cancel_freed(context: GateContext, findings: Findings) -> None:
    """G8: waiting requests take over the slots of a cancel plan, one step after it was observed."""
    size = context.size
    plan, after, budget = size.cancel_plan, size.cancel_after, size.budgets[1]
    active = size.num_sequences - len(plan)
    async with rig_of_mix(context, findings, active, reuse_completed=False) as rig:
        rig.preload(context.prompt, *[budget] * len(plan), first_id=active)
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens=dict.fromkeys(plan, after)))
        run = await rig.run()
    late = [run.of(active + i) for i in range(len(plan))]
    _check_late(findings, "", late, step=after + 1, slots=sorted(plan), source=AdmissionSource.CANCEL_FREED)
    findings.equal("done_steps", distinct(each.done_step for each in late), [after + budget])
    findings.equal("pos_max", distinct(each.pos_max_at_clear for each in late), [len(context.prompt) + budget - 2])
    shape = run.log.at(after + 1).plan.shape
    still_running = active - ceil(active / 3) - len(plan)
    findings.equal("prefill_rows_then", shape.prefill_rows, len(plan) * len(context.prompt))
    findings.equal("decode_rows_then", shape.decode_rows, still_running)
    _check_ends(findings, run, active, len(plan))
    _check_lifecycle(findings, run, active, len(plan), budget)
    depths = run.log.waiting_depths()
    findings.holds(
        "all of them wait until the step after the cancels, then nobody",
        holds=depths == [len(plan)] * after + [0] * (max(size.budgets) - 1 - after),
    )
    findings.equal("queue_depth_samples", len(depths), max(size.budgets) - 1)
    findings.count("queue_depth_p50_p95_max", spread(depths))


async def check_completion_freed(context: GateContext, findings: Findings) -> None:
    """G9: waiting requests take over completed slots if they may, else they never start."""
    size = context.size
    budget, num_waiting = size.budgets[0], size.num_waiting
    active = size.num_sequences - num_waiting
    for reuse in (True, False):
        word = "on" if reuse else "off"
        context.on_progress(f"reuse {word}")
        async with rig_of_mix(context, findings, active, reuse_completed=reuse) as rig:
            rig.preload(context.prompt, *[budget] * num_waiting, first_id=active)
            run = await rig.run()
        late = [run.of(active + i) for i in range(num_waiting)]
        left = ceil(active / 3) - num_waiting if reuse else 0
        findings.equal(f"pool_left_{word}", run.summary.snapshot.scheduler.kv.sequences_free, left)
        if reuse:
            slots = [3 * i for i in range(num_waiting)]
            _check_late(findings, "", late, step=budget, slots=slots, source=AdmissionSource.COMPLETION_FREED)
        else:
            findings.equal("admitted_off", run.summary.snapshot.totals.admitted, 0)
            findings.equal("aborted_off", run.num_ended(FinishReason.ABORTED), num_waiting)


async def check_external(context: GateContext, findings: Findings) -> None:
    """G10: requests of another thread are drained one step after their release, and get the slots of G8."""
    size = context.size
    plan, after, release = size.cancel_plan, size.cancel_after, size.budgets[0]
    active = size.num_sequences - len(plan)
    async with rig_of_mix(context, findings, active, reuse_completed=False) as rig:
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens=dict.fromkeys(plan, after)))
        with ArrivalPlan(release, _submitter(rig, context, active, len(plan))) as arrivals:
            rig.log.after_step(arrivals)
            run = await rig.run()
    late = [run.of(active + i) for i in range(len(plan))]
    drained = {
        record.plan.step
        for record in run.log.records
        for event in record.events
        if isinstance(event, Queued) and event.request.request_id >= active
    }
    findings.equal("drained_steps", sorted(drained), [release + 1])
    _check_late(findings, "", late, step=after + 1, slots=sorted(plan), source=AdmissionSource.CANCEL_FREED)
    findings.equal("external", sum(not each.preloaded for each in late), len(plan))
    findings.equal("released", arrivals.fired, 1)
    findings.equal("acknowledged", arrivals.acknowledged, 1)


async def check_mixed(context: GateContext, findings: Findings) -> None:
    """G11: completed slots serve those that wait, cancelled ones those that come; each from its own pool."""
    size = context.size
    plan, after, first = size.cancel_plan, size.cancel_after, size.budgets[0]
    active = size.num_sequences - size.num_waiting - len(plan)
    async with rig_of_mix(context, findings, active, reuse_completed=True) as rig:
        rig.preload(context.prompt, *[first] * size.num_waiting, first_id=active)
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens=dict.fromkeys(plan, after)))
        external_id = active + size.num_waiting
        with ArrivalPlan(after, _submitter(rig, context, external_id, len(plan))) as arrivals:
            rig.log.after_step(arrivals)
            run = await rig.run()
    completed = sum(isinstance(event, Finished) for event in run.log.at(first - 1).events)
    findings.equal("completed_then", completed, ceil(active / 3))
    waited = [run.of(active + i) for i in range(size.num_waiting)]
    slots = [3 * i for i in range(size.num_waiting)]
    _check_late(findings, "waiting_", waited, step=first, slots=slots, source=AdmissionSource.COMPLETION_FREED)
    came = [run.of(external_id + i) for i in range(len(plan))]
    _check_late(findings, "external_", came, step=after + 1, slots=sorted(plan), source=AdmissionSource.CANCEL_FREED)
    steps = {event.step for event in run.log.events(Admitted) if event.step > 0}
    findings.equal("admission_steps", sorted(steps), [first, after + 1])
    left = ceil(active / 3) - size.num_waiting
    findings.equal("pool_left", run.summary.snapshot.scheduler.kv.sequences_free, left)


async def check_idle_slot(context: GateContext, findings: Findings) -> None:
    """G12: a slot that was idle at first serves again after a cancel and a natural end, asleep or not."""
    for asleep in (False, True):
        word = "asleep" if asleep else "busy"
        run = await _three_in_turn(context, findings, asleep=asleep)
        reasons = [each.reason for each in run.results]
        ends = [FinishReason.CANCELLED, FinishReason.LENGTH, FinishReason.LENGTH]
        findings.holds(f"{word}: the first is cancelled and the others complete", holds=reasons == ends)
        findings.equal(f"admitted_{word}", run.summary.snapshot.totals.admitted, 3)
        sources = [str(each.admission_source) for each in run.results]
        promised = [AdmissionSource.INITIAL_IDLE, AdmissionSource.CANCEL_FREED, AdmissionSource.INITIAL_IDLE]
        findings.equal(f"sources_{word}", " ".join(sources), " ".join(promised))


async def _three_in_turn(context: GateContext, findings: Findings, *, asleep: bool) -> RunRecord:
    """Three requests for one slot, the first cancelled; each comes at once, or when the engine has gone to sleep."""
    first_budget, budget = context.size.budgets[2], context.size.budgets[0]
    shape = Shape(num_sequences=1, positions=len(context.prompt) + first_budget)
    async with Rig(context, findings, shape, EngineOptions(published_pools=False)) as rig:
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens={1: budget}))
        rig.start()
        handles = [rig.submit(context.prompt, first_budget, request_id=1)]
        for request_id in (2, 3):
            if asleep:
                await handles[-1].result()
            handles.append(rig.submit(context.prompt, budget, request_id=request_id))
        for handle in handles:
            await handle.result()
        return await rig.stop()


async def check_shutdown(context: GateContext, findings: Findings) -> None:
    """G13: an engine that shuts down ends although somebody waits who can never be admitted."""
    budget = context.size.budgets[0]
    shape = Shape(num_sequences=1, positions=len(context.prompt) + budget)
    async with Rig(context, findings, shape, EngineOptions(published_pools=False)) as rig:
        active, waiting = rig.preload(context.prompt, budget, budget)
        rig.start()
        await active.result()
        snapshot = await rig.engine.ask_snapshot()
        findings.equal("waiting", snapshot.scheduler.num_waiting, 1)
        run = await rig.stop()
    answer = run.answers[1]
    findings.equal("status", answer.result.reason, FinishReason.ABORTED)
    findings.equal("stream", answer.close_reason, CloseReason.ERROR)
    findings.equal("aborted", run.summary.snapshot.totals.aborted, 1)
    findings.equal("queued_cancelled", run.summary.snapshot.totals.queued_cancelled, 0)
    findings.holds("the waiter's handle was resolved", holds=waiting.is_done)


async def check_placement(context: GateContext, findings: Findings) -> None:
    """G14: this placement passes G4 and a whole run within its time limit."""
    await check_queued(context, findings)
    await check_three(context, findings)


def _submitter(rig: Rig, context: GateContext, first_id: int, num_requests: int) -> Callable[[], None]:
    """Submits external requests, from whatever thread calls it."""

    def submit() -> None:
        for request_id in range(first_id, first_id + num_requests):
            rig.submit(context.prompt, context.size.budgets[1], request_id=request_id)

    return submit


def _check_late(
    findings: Findings, prefix: str, late: list[Result], *, step: int, slots: list[int], source: AdmissionSource
) -> None:
    """Requests that waited: admitted in one step, onto these slots in request order, from one pool."""
    findings.equal(f"{prefix}admitted_steps", distinct(each.admitted_step for each in late), [step])
    findings.equal(f"{prefix}slots", [-1 if each.sequence_id is None else each.sequence_id for each in late], slots)
    sources = sorted({str(each.admission_source) for each in late})
    findings.equal(f"{prefix}source", " ".join(sources), source)


def _check_ends(findings: Findings, run: RunRecord, active: int, num_cancelled: int) -> None:
    originals = [each for each in run.results if each.request_id < active]
    late = [each for each in run.results if each.request_id >= active]
    completed = sum(each.reason is FinishReason.LENGTH for each in originals)
    findings.equal("original_completed", completed, active - num_cancelled)
    findings.equal("cancelled", sum(each.reason is FinishReason.CANCELLED for each in originals), num_cancelled)
    findings.equal("admitted_completed", sum(each.reason is FinishReason.LENGTH for each in late), num_cancelled)


def _check_lifecycle(findings: Findings, run: RunRecord, active: int, num_late: int, budget: int) -> None:
    """The figures that the published trace counts, from the log."""
    admitted = run.log.events(Admitted)
    late = [event for event in admitted if event.step > 0]
    findings.equal("admitted_at_start", len(admitted) - len(late), active)
    findings.equal("queued", len(run.log.events(Queued)) - active, num_late)
    findings.equal("admitted_live", len(late), num_late)
    findings.equal("slots_reused", sum(event.previous_request_id is not None for event in late), num_late)
    chunks = [run.log.chunks_of(event.request.request_id) for event in late]
    findings.equal("late_prefills", sum(map(len, chunks)), num_late)
    decode_rows = sum(run.log.decode_rows_of(event.request.request_id) for event in late)
    findings.equal("late_decode_rows", decode_rows, num_late * (budget - 1))
