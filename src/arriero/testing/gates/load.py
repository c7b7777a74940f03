"""G40 to G44: a closed loop of clients, and what is written down about a run."""

import asyncio
from functools import partial
from itertools import pairwise
from typing import Final

from arriero.core.ids import Time
from arriero.core.request import FinishReason
from arriero.engine.diagnostics import Diagnostics
from arriero.engine.observer import Observer, StepRecord
from arriero.engine.trace import Tracer
from arriero.record.diagnostics import EngineSummaryRow, IterRow, decode_row
from arriero.record.lines import LineList
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.http_contract import PATH, request
from arriero.testing.gates.http_rig import Endless, HttpRig
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.watch import CancelPlan, StepLog

FLOOR_S: Final = 0.004
"""A decode call takes so long at least: clients in this process need a moment between two answers."""

LOAD_BUDGET: Final = 8
TOLERANCE: Final = 0.05


async def check_backlog(context: GateContext, findings: Findings) -> None:
    """G40: more clients than slots keep every slot busy."""
    size = context.size
    log, failures = await _closed_loop(context, findings, size.load_clients, size.load_requests)
    steps = log.computed()
    queued = [record for record in steps if record.plan.num_waiting]
    findings.equal("failures", failures, 0)
    findings.equal("requests", len(log.results), size.load_requests)
    findings.equal("mean_active_while_queued", _mean_active(queued), float(size.load_slots))
    share = len(queued) / len(steps)
    findings.count("share_of_steps_with_a_queue", round(share, 4))
    # at both ends of a run the queue is empty for about one answer, which a short run cannot hide in its 5 %
    bare = len(steps) - len(queued)
    findings.holds(
        f"a queue in more than 95 % of the steps, not {share:.3f}",
        holds=bare < max(TOLERANCE * len(steps), 2 * LOAD_BUDGET),
    )
    ideal = LOAD_BUDGET * size.load_requests / size.load_slots
    findings.count("steps", len(steps))
    findings.count("steps_ideal", ideal)
    findings.holds(
        f"about {ideal:.0f} steps, not {len(steps)}",
        holds=ideal <= len(steps) <= ideal * (1 + TOLERANCE) + 2 * LOAD_BUDGET,
    )


async def check_no_backlog(context: GateContext, findings: Findings) -> None:
    """G41: as many clients as slots leave slots empty between two requests, and never a queue."""
    size = context.size
    log, failures = await _closed_loop(context, findings, size.load_slots, size.load_requests // 4)
    findings.equal("failures", failures, 0)
    findings.equal("longest_queue", max(log.waiting_depths()), 0)
    findings.count("mean_active", round(_mean_active(log.computed()), 4))
    busy = sum(record.plan.shape.num_running * (record.ended_at - record.began_at) for record in log.records)
    spent = log.records[-1].ended_at - log.records[0].began_at
    findings.count("mean_active_in_time", round(busy / spent, 4))
    findings.holds("slots stand empty between two requests", holds=busy / spent < size.load_slots)


async def _closed_loop(
    context: GateContext, findings: Findings, num_clients: int, num_requests: int
) -> tuple[StepLog, int]:
    """Clients that each send their next request when the last one is answered; the log and the failures."""
    slots = context.size.load_slots
    shape = Shape(num_sequences=slots, positions=len(context.prompt) + LOAD_BUDGET)
    backlog = context.size.load_clients - slots
    wrap = partial(Endless, floor_s=FLOOR_S)
    left = iter(range(num_requests))
    async with HttpRig(context, findings, shape, backlog=backlog, wrap=wrap) as rig:

        async def client() -> int:
            failures = 0
            for _ in left:
                reply = await rig.client.post(PATH, request(budget=LOAD_BUDGET))
                failures += reply.status != 200 or reply.json["n_decoded"] != LOAD_BUDGET
            return failures

        failures = sum(await asyncio.gather(*(client() for _ in range(num_clients))))
        return await rig.stop(), failures


def _mean_active(records: list[StepRecord]) -> float:
    return sum(record.plan.shape.num_running for record in records) / max(1, len(records))


async def _recorded(context: GateContext, findings: Findings, *observers: Observer) -> RunRecord:
    """A run with a bit of everything: two budgets, a cancel, requests that wait."""
    size = context.size
    shape = Shape(num_sequences=3, positions=len(context.prompt) + max(size.budgets))
    async with Rig(context, findings, shape, observers=observers) as rig:
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens={1: size.cancel_after}))
        rig.preload(context.prompt, *size.budgets)
        for number in range(3, 6):
            rig.submit(context.tokens(20 + number, number), size.budgets[0], request_id=number)
        return await rig.run()


async def check_sums(context: GateContext, findings: Findings) -> None:
    """G42: the written rows of a run add up, step by step and in all."""
    lines = LineList()
    run = await _recorded(context, findings, Diagnostics(lines))
    rows = [decode_row(line) for line in lines.lines]
    steps = [row for row in rows if isinstance(row, IterRow)]
    (summary,) = (row for row in rows if isinstance(row, EngineSummaryRow))
    uneven = [row.iter for row in steps if row.batch_n_tokens != row.prefill_rows_in_iter + row.decode_rows_in_iter]
    findings.equal("uneven_steps", uneven, [])
    prompts = sum(result.prompt_tokens for result in run.results)
    findings.equal("prefill_rows", sum(row.prefill_rows_in_iter for row in steps), prompts)
    findings.equal("prefill_rows_in_summary", summary.prefill_rows, prompts)
    # every token but the first of an answer comes from a decode row
    decoded = sum(result.num_decoded - 1 for result in run.results)
    findings.equal("decode_rows", sum(row.decode_rows_in_iter for row in steps), decoded)
    tokens = sum(result.num_decoded for result in run.results)
    findings.equal("tokens", sum(row.tokens_emitted_in_iter for row in steps), tokens)
    findings.equal("tokens_in_summary", summary.tokens_emitted, tokens)
    findings.equal("decode_calls", sum(row.decode_calls_in_iter for row in steps), summary.decode_calls)
    findings.equal("completed", sum(row.completed_in_iter for row in steps), summary.completed_count)
    findings.equal("cancelled", sum(row.cancelled_in_iter for row in steps), summary.cancelled_count)
    findings.equal("steps", len(steps), len(run.log.records))


async def check_stamps(context: GateContext, findings: Findings) -> None:
    """G43: the moments of every request come in their order, those of HTTP and those of a cancel too."""
    budget = context.size.budgets[0]
    shape = Shape(num_sequences=2, positions=len(context.prompt) + budget)
    async with HttpRig(context, findings, shape, backlog=8) as rig:
        bodies = [request(budget=budget, stream=number % 2 == 0) for number in range(6)]
        await asyncio.gather(*(rig.client.post(PATH, body) for body in bodies))
        await rig.rows.wait_for(len(bodies))
        await rig.stop()
    for row in rig.rows.rows:
        stamps = (
            row.t_entry_us, row.t_parse_done_us, row.t_tokenize_done_us, row.t_admitted_us, row.first_token_us,
            row.t_complete_us, row.t_result_available_us, row.t_exit_us,
        )  # fmt: skip
        # a stream is ready with its first piece, a body with the result
        ready_after = row.first_token_us if row.stream else row.t_result_available_us
        ready = (ready_after, row.t_response_ready_us, row.t_exit_us)
        findings.holds(f"request {row.request_id}: its response was ready in time {ready}", holds=_ascend(*ready))
        findings.holds(f"request {row.request_id}: the moments {stamps} are in order", holds=_ascend(*stamps))
        order = (row.submit_us, row.t_admitted_us, row.first_token_us, row.completion_us)
        findings.holds(f"request {row.request_id}: submit to completion {order}", holds=_ascend(*order))
    findings.equal("rows", len(rig.rows.rows), len(bodies))
    await _check_cancel_stamps(context, findings)


async def _check_cancel_stamps(context: GateContext, findings: Findings) -> None:
    posted: list[Time] = []
    shape = Shape(num_sequences=1, positions=len(context.prompt) + context.size.budgets[2])
    async with Rig(context, findings, shape) as rig:

        def cancel(request_id: int) -> None:
            posted.append(rig.engine.now())
            rig.engine.cancel(request_id)

        rig.log.after_step(CancelPlan(cancel, after_tokens={0: context.size.cancel_after}))
        rig.preload(context.prompt, context.size.budgets[2])
        run = await rig.run()
        ended = rig.engine.now()
    result = run.of(0)
    moments = (*posted, result.cancel_observed_at, result.finished_at, ended)
    findings.holds(f"cancel, observed, end {moments} are in order", holds=len(moments) == 4 and _ascend(*moments))
    findings.equal("cancelled", result.reason, FinishReason.CANCELLED)


def _ascend(*stamps: Time | None) -> bool:
    """Whether every moment came, none before the one before it."""
    told = [stamp for stamp in stamps if stamp is not None]
    return len(told) == len(stamps) and all(earlier <= later for earlier, later in pairwise(told))


async def check_unwatched(context: GateContext, findings: Findings) -> None:
    """G44: what is written down about a run does not change it."""
    plain = await _recorded(context, findings)
    lines, trace = LineList(), LineList()
    written = await _recorded(context, findings, Diagnostics(lines), Tracer(trace, pool=context.placement_word))
    findings.holds("the results are the same", holds=plain.outline() == written.outline())
    same = sum(one.tokens == other.tokens for one, other in zip(plain.results, written.results, strict=True))
    findings.equal("same_tokens", same, len(plain.results))
    findings.holds("something was written", holds=bool(lines.lines) and bool(trace.lines))
    findings.count("diagnostics_lines", len(lines.lines))
    findings.count("trace_lines", len(trace.lines))
