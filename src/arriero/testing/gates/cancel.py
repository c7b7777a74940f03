"""G3 to G7: cancels of running, waiting, finished and unknown requests."""

from typing import Final

from arriero.core.events import CancelObserved, Finished
from arriero.core.request import FinishReason
from arriero.engine.options import EngineOptions
from arriero.scheduler.cancels import CancelCounts
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.figures import distinct
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.promises import wasted_rows
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.watch import CancelPlan

LONG_RUN: Final = 8_000  # within what the small model was trained for, prompt included
"""Tokens of a request that is still running whatever a gate does meanwhile; the gate cancels it itself."""


def cancels_of(run: RunRecord) -> CancelCounts:
    """The cancel totals of a run."""
    return run.summary.snapshot.scheduler.cancels


async def check_plan(context: GateContext, findings: Findings) -> None:
    """G3: a cancel plan in a full batch is observed in one step and saves the rows that were left."""
    size = context.size
    plan, after = size.cancel_plan, size.cancel_after
    budgets = [size.budget_of(number) for number in range(size.num_sequences)]
    async with Rig(context, findings, context.shape_of_mix(size.num_sequences)) as rig:
        rig.preload(context.prompt, *budgets)
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens=dict.fromkeys(plan, after)))
        run = await rig.run()
    cancelled = [run.of(number) for number in plan]
    findings.equal("completed", run.num_ended(FinishReason.LENGTH), size.num_sequences - len(plan))
    findings.equal("cancelled", run.num_ended(FinishReason.CANCELLED), len(plan))
    findings.equal("observed_steps", distinct(each.cancel_observed_step for each in cancelled), [after])
    findings.equal("num_decoded_at_cancel", distinct(each.num_decoded_at_cancel for each in cancelled), [after])
    findings.equal("pos_max", distinct(each.pos_max_at_clear for each in cancelled), [len(context.prompt) + after - 2])
    findings.equal("wasted_rows", wasted_rows(run.log), 0)
    ends = run.log.events(Finished)
    findings.equal(
        "completions", sum(end.reason is FinishReason.LENGTH for end in ends), size.num_sequences - len(plan)
    )
    findings.equal("cancels_observed", len(run.log.events(CancelObserved)), len(plan))
    whole = sum(budget - 1 for budget in budgets)
    spent = sum(record.plan.shape.decode_rows for record in run.log.records)
    findings.equal("decode_rows_saved", whole - spent, sum(size.budget_of(number) - after for number in plan))


async def check_queued(context: GateContext, findings: Findings) -> None:
    """G4: a request that waits for a busy slot is cancelled while the engine computes, without a token."""
    prompt = context.prompt
    shape = Shape(num_sequences=1, positions=len(prompt) + LONG_RUN)
    async with Rig(context, findings, shape, EngineOptions(published_pools=False)) as rig:
        (busy,) = rig.preload(prompt, LONG_RUN)
        rig.start()
        await rig.read(busy, num_tokens=1)
        waiting = rig.submit(prompt, context.size.budgets[0], request_id=1)
        queued = await rig.engine.ask_snapshot()
        findings.equal("waiting", queued.scheduler.num_waiting, 1)
        waiting.cancel()
        result = await waiting.result()
        snapshot = await rig.engine.ask_snapshot()
        findings.equal("running_meanwhile", snapshot.scheduler.num_running, 1)
        findings.equal("cancel_calls", snapshot.scheduler.cancels.calls, 1)
        findings.equal("queued_cancelled", snapshot.totals.queued_cancelled, 1)
        findings.equal("admitted", snapshot.totals.admitted, 0)
        rig.engine.cancel(0)
        run = await rig.stop()
    answer = run.answers[-1]
    findings.equal("status", result.reason, FinishReason.CANCELLED)
    findings.equal("num_decoded", result.num_decoded, 0)
    findings.equal("hash", result.token_hash, 0)
    findings.equal("stream", answer.close_reason, "cancelled")
    findings.holds("it never had a slot", holds=result.sequence_id is None and not result.kv_cleared)


async def check_active(context: GateContext, findings: Findings) -> None:
    """G5: one of three running requests is cancelled; the two others say what they say without the cancel."""
    size = context.size
    _, _, longest = size.budgets
    shape = Shape(num_sequences=3, positions=len(context.prompt) + longest, exact=True)
    options = EngineOptions(keep_alive=False, published_pools=False)
    runs: list[RunRecord] = []
    for plan in ({}, {1: size.cancel_after}):
        async with Rig(context, findings, shape, options) as rig:
            rig.preload(context.prompt, longest, longest, longest)
            rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens=plan))
            runs.append(await rig.run())
    plain, run = runs
    cancelled = run.of(1)
    findings.equal("status", cancelled.reason, FinishReason.CANCELLED)
    findings.equal("observed_step", cancelled.cancel_observed_step, size.cancel_after)
    findings.equal("num_decoded", cancelled.num_decoded, size.cancel_after)
    findings.equal("active_observed", cancels_of(run).active_observed, 1)
    findings.equal("stream", run.answers[1].close_reason, "cancelled")
    for other in (0, 2):
        findings.holds(
            f"request {other} says what it says without the cancel",
            holds=run.of(other).tokens == plain.of(other).tokens,
        )


async def check_stale(context: GateContext, findings: Findings) -> None:
    """G6: an id is used again, and the token of its first life does not touch the second."""
    first_budget, second_budget = context.size.budgets[0], 4 * context.size.budgets[0]
    shape = Shape(num_sequences=1, positions=len(context.prompt) + second_budget)
    async with Rig(context, findings, shape, EngineOptions()) as rig:
        rig.start()
        first = rig.submit(context.prompt, first_budget, request_id=42)
        await first.result()
        plan = CancelPlan(
            lambda request_id: rig.engine.cancel_submission(request_id, first.epoch), after_tokens={42: first_budget}
        )
        rig.log.after_step(plan)
        second = rig.submit(context.prompt, second_budget, request_id=42)
        result = await second.result()
        run = await rig.stop()
    counts = cancels_of(run)
    findings.equal("status", result.reason, FinishReason.LENGTH)
    findings.equal("num_decoded", result.num_decoded, second_budget)
    findings.equal("stale_epoch", counts.stale_epoch, 1)
    findings.equal("unknown", counts.unknown, 0)
    findings.equal("active_observed", counts.active_observed, 0)
    findings.holds("the second life has a later epoch", holds=second.epoch > first.epoch)


async def check_ignored(context: GateContext, findings: Findings) -> None:
    """G7: cancels that come twice, for nobody, or before their request."""
    size = context.size
    shape = Shape(num_sequences=2, positions=len(context.prompt) + size.budgets[1])
    async with Rig(context, findings, shape) as rig:
        rig.preload(context.prompt, size.budgets[1], size.budgets[1])
        for _ in range(2):
            rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens={1: size.budgets[0]}))
        rig.engine.cancel(999)  # nobody, ever
        rig.engine.cancel(7)  # before it is submitted
        rig.submit(context.prompt, size.budgets[0], request_id=7)
        run = await rig.run()
    counts, early = cancels_of(run), run.of(7)
    findings.equal("calls", counts.calls, 4)
    findings.equal("duplicates", counts.duplicates, 1)
    findings.equal("unknown", counts.unknown, 1)
    findings.equal("active_observed", counts.active_observed, 1)
    findings.equal("queued", counts.queued, 1)
    findings.equal("early_status", early.reason, FinishReason.CANCELLED)
    findings.holds("the early cancel met its request before any slot did", holds=early.sequence_id is None)
    findings.equal("completed", run.num_ended(FinishReason.LENGTH), 1)
    findings.equal("cancelled", run.num_ended(FinishReason.CANCELLED), 2)
