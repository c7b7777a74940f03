"""G18 to G22: prompt rows are metered, decode rows never are."""

from collections.abc import Iterable
from math import ceil
from typing import Final

from arriero.core.events import AdmissionSource, TokenEmitted
from arriero.core.ids import TokenId
from arriero.core.request import FinishReason
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.scheduler.draft import PrefillBudget
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.promises import prefill_rows
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.watch import ArrivalPlan, CancelPlan

SIX: Final = 6
"""Length of the prompt whose chunks are published."""

INTERFERENCE_BUDGETS: Final = (None, 32, 64, 128)


def _options(per_sequence: int | None, per_step: int | None = None) -> EngineOptions:
    return EngineOptions(keep_alive=False, budget=PrefillBudget(per_sequence=per_sequence, per_step=per_step))


async def _alone(context: GateContext, findings: Findings, prompt: tuple[TokenId, ...], cap: int | None) -> RunRecord:
    """One request that comes through the inbox, so that its prompt is metered."""
    budget = context.size.budgets[0]
    shape = Shape(num_sequences=1, positions=len(prompt) + budget)
    async with Rig(context, findings, shape, _options(cap)) as rig:
        rig.submit(prompt, budget, request_id=1)
        return await rig.run()


async def check_chunks(context: GateContext, findings: Findings) -> None:
    """G18: six prompt tokens come in the chunks that the cap asks for, and no token comes before the last chunk."""
    prompt = context.tokens(SIX)
    unmetered = (await _alone(context, findings, prompt, None)).results[0]
    for cap, chunks in ((2, [2, 2, 2]), (4, [4, 2]), (None, [6]), (6, [6]), (7, [6])):
        word = "off" if cap is None else str(cap)
        run = await _alone(context, findings, prompt, cap)
        again = await _alone(context, findings, prompt, cap)
        result = run.results[0]
        findings.equal(f"chunks_{word}", run.log.chunks_of(1), chunks)
        first = run.log.events(TokenEmitted)[0]
        findings.equal(f"first_step_{word}", first.step, (result.admitted_step or 0) + len(chunks) - 1)
        findings.equal(f"done_step_{word}", result.done_step, first.step + result.decode_budget - 1)
        findings.holds(f"cap {word} gives the same again", holds=run.outline() == again.outline())
        if len(chunks) == 1:
            findings.holds(f"cap {word} gives the unmetered answer", holds=result.tokens == unmetered.tokens)


async def check_cancelled_prefill(context: GateContext, findings: Findings) -> None:
    """G19: a request cancelled after its first chunk says nothing, and its slot serves the next one as new."""
    prompt, cap, budget = context.tokens(SIX), 2, context.size.budgets[0]
    alone = (await _alone(context, findings, prompt, cap)).results[0]
    shape = Shape(num_sequences=1, positions=len(prompt) + budget)
    async with Rig(context, findings, shape, _options(cap)) as rig:
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_chunks={1: 1}))
        rig.submit(prompt, budget, request_id=1)
        rig.submit(prompt, budget, request_id=2)
        run = await rig.run()
    cancelled, following = run.results
    findings.equal("chunks", run.log.chunks_of(1), [cap])
    findings.equal("tokens", len(run.answers[0].streamed or ()), 0)
    findings.equal("status", cancelled.reason, FinishReason.CANCELLED)
    findings.equal("num_decoded_at_cancel", cancelled.num_decoded_at_cancel, 0)
    findings.equal("pos_max", cancelled.pos_max_at_clear, cap - 1)
    findings.equal("stream", run.answers[0].close_reason, "cancelled")
    findings.equal("next_source", following.admission_source, AdmissionSource.CANCEL_FREED)
    findings.equal("next_previous", following.previous_request_id, 1)
    findings.holds("the next one says what it says alone", holds=following.tokens == alone.tokens)


async def check_neighbour(context: GateContext, findings: Findings) -> None:
    """G20: a request decodes beside the chunks of another one, whose content does not matter to it."""
    size, cap = context.size, 4
    anchor_budget, length = size.budgets[1], 4 * size.budgets[0]
    shape = Shape(num_sequences=2, positions=len(context.prompt) + max(anchor_budget, length) + size.budgets[0])
    hashes: list[int] = []
    for start in (0, 7):
        probe = context.tokens(length, start)
        run = await _beside(context, findings, shape, _options(cap), [(probe, size.budgets[0])], anchor_budget)
        overlap = interference(run, active=2)
        findings.equal(f"overlap_steps_{start}", len(overlap), ceil(length / cap))
        findings.holds("the probe completed", holds=run.of(1).reason is FinishReason.LENGTH)
        hashes.append(run.of(0).token_hash)
    findings.holds("the neighbours' prompts differ", holds=context.tokens(length, 0) != context.tokens(length, 7))
    findings.equal("anchor_hashes", len(set(hashes)), 1)


async def check_interference(context: GateContext, findings: Findings) -> None:
    """G21: a cap bounds the prompt rows beside a decoding request, which gets a token in every such step."""
    anchor_budget = context.size.budgets[0]
    for length in context.size.probe_lengths:
        probe = (context.tokens(length), anchor_budget)
        shape = Shape(num_sequences=2, positions=length + anchor_budget, exact=True)
        hashes: set[int] = set()
        for cap in INTERFERENCE_BUDGETS:
            word = f"L{length}_B{cap or 0}"
            context.on_progress(word)
            run = await _beside(context, findings, shape, _options(cap), [probe], anchor_budget, preloaded=False)
            steps = interference(run, active=2)
            # the anchor speaks in step 1, then the probe is released
            findings.equal(f"steps_{word}", len(steps), min(anchor_budget - 1, ceil(length / (cap or length))))
            largest = max((prefill_rows(record) for record in steps), default=0)
            findings.equal(f"max_rows_{word}", largest, min(length, cap or length))
            findings.holds(f"{word}: the anchor has a token in each", holds=all(_speaks(each, 0) for each in steps))
            findings.holds(f"{word}: all of the prompt is computed", holds=sum(run.log.chunks_of(1)) == length)
            hashes.add(run.of(0).token_hash)
        findings.equal(f"anchor_hashes_L{length}", len(hashes), 1)


async def check_two_prompts(context: GateContext, findings: Findings) -> None:
    """G22: the cap per sequence bounds each prompt, the cap per step bounds both together; decoding goes on."""
    size, cap = context.size, 8
    length = 5 * cap
    anchor_budget = size.budgets[1]
    shape = Shape(num_sequences=3, positions=length + anchor_budget)
    probes = [(context.tokens(length, start), size.budgets[0]) for start in (0, 7)]
    for word, per_step in (("off", None), ("on", cap)):
        run = await _beside(context, findings, shape, _options(cap, per_step), probes, anchor_budget)
        steps = [record for record in run.log.computed() if record.plan.step > 0 and prefill_rows(record)]
        findings.equal(f"max_rows_step_{word}", max(map(prefill_rows, steps)), per_step or 2 * cap)
        findings.equal(f"max_rows_sequence_{word}", max(max(run.log.chunks_of(each)) for each in (1, 2)), cap)
        findings.equal(f"steps_{word}", len(steps), 2 * length // (per_step or 2 * cap))
        firsts = [_first_step(run, each) for each in (1, 2)]
        findings.holds(f"{word}: the older one speaks first, or both at once", holds=firsts[0] <= firsts[1])
        findings.equal(f"first_steps_apart_{word}", firsts[1] - firsts[0], length // cap if per_step else 0)
        findings.equal(f"completed_{word}", run.num_ended(FinishReason.LENGTH), 3)
        findings.equal(f"anchor_decode_rows_{word}", run.log.decode_rows_of(0), anchor_budget - 1)
        findings.equal(f"anchor_done_{word}", run.of(0).done_step, anchor_budget - 1)


async def _beside(
    context: GateContext,
    findings: Findings,
    shape: Shape,
    options: EngineOptions,
    probes: list[tuple[tuple[TokenId, ...], int]],
    anchor_budget: int,
    *,
    preloaded: bool = True,
) -> RunRecord:
    """An anchor, request 0, which begins in step 0 or 1, and probes that are released together when step 1 ends."""
    async with Rig(context, findings, shape, options) as rig:
        rig.submit(context.prompt, anchor_budget, request_id=0, preloaded=preloaded)

        def submit() -> None:
            for request_id, (prompt, budget) in enumerate(probes, 1):
                rig.submit(prompt, budget, request_id=request_id)

        with ArrivalPlan(1, submit) as arrivals:
            rig.log.after_step(arrivals)
            return await rig.run()


def interference(run: RunRecord, active: int) -> list[StepRecord]:
    """Steps with prompt rows and decode rows in which so many requests run."""
    return [
        record
        for record in run.log.computed()
        if prefill_rows(record) and record.plan.shape.decode_rows and record.plan.shape.num_running == active
    ]


def _speaks(record: StepRecord, request_id: int) -> bool:
    emitted: Iterable[TokenEmitted] = (event for event in record.events if isinstance(event, TokenEmitted))
    return any(event.request_id == request_id for event in emitted)


def _first_step(run: RunRecord, request_id: int) -> int:
    return next(event.step for event in run.log.events(TokenEmitted) if event.request_id == request_id)
