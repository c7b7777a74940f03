"""G15 to G17: streams count, belong to one request each, and do not wait for one another."""

import asyncio
from functools import partial

from arriero.core.events import AdmissionSource
from arriero.core.request import FinishReason
from arriero.engine.handle import RequestHandle
from arriero.engine.options import EngineOptions
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.watch import ArrivalPlan, CancelPlan


async def check_counts(context: GateContext, findings: Findings) -> None:
    """G15: three streams carry as many tokens as their requests decode, with and without a cancel."""
    size = context.size
    shape = Shape(num_sequences=3, positions=len(context.prompt) + max(size.budgets))
    for word, plan in (("plain", {}), ("cancelled", {1: size.cancel_after})):
        async with Rig(context, findings, shape) as rig:
            rig.preload(context.prompt, *size.budgets)
            rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens=plan))
            run = await rig.run()
        spoken = [plan.get(number, budget) for number, budget in enumerate(size.budgets)]
        counts = run.summary.snapshot.streams
        findings.equal(f"tokens_{word}", sum(len(answer.streamed or ()) for answer in run.answers), sum(spoken))
        findings.equal(f"emitted_{word}", counts.tokens, sum(spoken))
        findings.equal(f"completed_{word}", counts.completed, 3 - len(plan))
        findings.equal(f"streams_cancelled_{word}", counts.cancelled, len(plan))


async def check_one_slot(context: GateContext, findings: Findings) -> None:
    """G16: one slot hosts request after request, preloaded or not, after an end or a cancel; a stream each."""
    await _check_chain(context, findings)
    for external in (False, True):
        for cancelled in (False, True):
            await _check_successor(context, findings, external=external, cancelled=cancelled)


async def _check_chain(context: GateContext, findings: Findings) -> None:
    budget = context.size.budgets[0]
    shape = Shape(num_sequences=1, positions=len(context.prompt) + budget)
    async with Rig(context, findings, shape, EngineOptions(keep_alive=False, published_pools=True)) as rig:
        rig.preload(context.prompt, budget, budget, budget)
        run = await rig.run()
    results = run.results
    findings.equal("admitted", [each.admitted_step or 0 for each in results], [0, budget, 2 * budget])
    findings.equal("done", [each.done_step for each in results], [budget - 1, 2 * budget - 1, 3 * budget - 1])
    findings.equal("tokens", sum(len(answer.streamed or ()) for answer in run.answers), 3 * budget)
    previous = [-1 if each.previous_request_id is None else each.previous_request_id for each in results]
    findings.equal("previous", previous, [-1, 0, 1])


async def _check_successor(context: GateContext, findings: Findings, *, external: bool, cancelled: bool) -> None:
    """The second holder of a slot, however it came and however the first one left."""
    budget = context.size.budgets[0]
    first_budget = 2 * budget if cancelled else budget
    shape = Shape(num_sequences=1, positions=len(context.prompt) + first_budget)
    word = f"{'external' if external else 'preloaded'}_{'cancel' if cancelled else 'completion'}"
    async with Rig(context, findings, shape, EngineOptions(keep_alive=False, published_pools=True)) as rig:
        rig.preload(context.prompt, first_budget)
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens={0: budget} if cancelled else {}))
        if not external:
            rig.preload(context.prompt, budget, first_id=1)
        with ArrivalPlan(1, partial(rig.submit, context.prompt, budget, request_id=1)) as arrivals:
            if external:
                rig.log.after_step(arrivals)
            run = await rig.run()
    _, second = run.results
    source = AdmissionSource.CANCEL_FREED if cancelled else AdmissionSource.COMPLETION_FREED
    findings.equal(f"{word}_admitted", second.admitted_step, budget + 1 if cancelled else budget)
    findings.equal(f"{word}_source", second.admission_source, source)
    findings.holds(f"{word}: its stream has its own tokens only", holds=_streamed(run, 1) == budget)
    findings.holds(f"{word}: it completed", holds=second.reason is FinishReason.LENGTH)


async def check_paused(context: GateContext, findings: Findings) -> None:
    """G17: a consumer that does not read delays nobody, and gets everything in one piece later."""
    budget = context.size.budgets[1]
    shape = Shape(num_sequences=2, positions=len(context.prompt) + budget)
    async with Rig(context, findings, shape) as rig:
        paused, reading = rig.preload(context.prompt, budget, budget)
        rig.start()
        async with asyncio.TaskGroup() as tasks:
            other_is_over = asyncio.Event()
            late = tasks.create_task(_read_after(rig, paused, other_is_over))
            num_pieces = await rig.read(reading)
            other_is_over.set()
        run = await rig.finish()
    findings.equal("done_steps", [each.done_step for each in run.results], [budget - 1, budget - 1])
    findings.equal("pieces_paused", late.result(), 1)
    findings.count("pieces_reading", num_pieces)
    findings.equal("tokens_paused", _streamed(run, 0), budget)
    findings.equal("tokens_reading", _streamed(run, 1), budget)


async def _read_after(rig: Rig, handle: RequestHandle, resume: asyncio.Event) -> int:
    await resume.wait()
    return await rig.read(handle)


def _streamed(run: RunRecord, index: int) -> int:
    return len(run.answers[index].streamed or ())
