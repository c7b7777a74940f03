"""G54: who yields when memory runs out gets its own KV back or computes it again, and says the same either way.

In exact mode each sequence has a stream of its own, which nobody else can fill: there memory says that it is full
where it is not. In one pool for all it really runs out.
"""

from typing import Final

from arriero.core.config import KvLayout
from arriero.core.events import Admitted, ForgetSaved, Preempted, PreemptionCause, SaveSequence
from arriero.core.request import FinishReason
from arriero.engine.options import EngineOptions
from arriero.engine.swapping import WHATEVER_IT_COSTS
from arriero.testing.gates.backends import STREAM_CELLS, Shape
from arriero.testing.gates.company import Scoping, keep_company
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.mix import Squeezed
from arriero.testing.gates.mixture import Asked
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.solo import SoloBook

LENGTHS: Final = (24, 31, 38, 45)
ANSWER: Final = 12
FULL_CALLS: Final = (9, 12)
"""Two decode calls that find memory full, while all four answer."""

ROOM: Final = 60
"""Tokens: enough for the first that yields, and not for both."""

LEFT: Final = 22
"""Cells of a pool that two prompts leave for both answers together."""

POOL_ANSWER: Final = 20


async def check_preemption(context: GateContext, findings: Findings) -> None:
    """G54: every answer is the one alone, one victim is swapped and one computed again, and nothing stays outside."""
    context.on_progress("exact")
    await _exact(context, findings)
    context.on_progress("one pool")
    await _one_pool(context, findings)


async def _exact(context: GateContext, findings: Findings) -> None:
    asked = [
        Asked(number=number, prompt=context.tokens(length, 11 * number), max_tokens=ANSWER, family=0, tenant=0)
        for number, length in enumerate(LENGTHS)
    ]
    shape = Shape(num_sequences=len(LENGTHS), positions=max(LENGTHS) + ANSWER, exact=True, host_tokens=ROOM)
    options = EngineOptions(exact=True, swap=WHATEVER_IT_COSTS, swap_tokens=ROOM)
    async with SoloBook(context, findings, shape, options) as alone:
        solos = {each.number: await alone.answer(each.prompt, ANSWER) for each in asked}
    company = await keep_company(
        context,
        findings,
        asked,
        solos,
        shape=shape,
        options=options,
        width=len(asked),
        scoping=Scoping.NONE,
        faults=[Squeezed(*FULL_CALLS)],
    )
    findings.equal("exact_same_answers", sum(verdict.place is None for verdict in company.verdicts), len(asked))
    findings.equal("exact_rows_different", company.num_unlike_rows, 0)
    findings.count("exact_rows_compared", company.num_rows)
    findings.equal("exact_came_back", _num_back(company.run), 1)
    _check_run(findings, "exact", company.run, swapped=1, again=1)


async def _one_pool(context: GateContext, findings: Findings) -> None:
    """Two requests fill a pool with their answers; bits may depend on where cells lie, so tokens are not compared."""
    shape = Shape(num_sequences=2, positions=1, cells=STREAM_CELLS, layout=KvLayout.UNIFIED, host_tokens=1)
    options = EngineOptions(keep_alive=False, swap=WHATEVER_IT_COSTS, swap_tokens=4 * STREAM_CELLS)
    async with Rig(context, findings, shape, options) as rig:
        half = rig.engine.limits.num_cells // 2
        for number, length in enumerate((half - LEFT // 4, half - LEFT + LEFT // 4)):
            rig.submit(context.tokens(length, number), POOL_ANSWER, request_id=number)
        run = await rig.run()
    # memory may refuse to bring a sequence back into a pool whose free cells lie scattered
    findings.count("pool_came_back", _num_back(run))
    _check_run(findings, "pool", run, swapped=1, again=0)


def _check_run(findings: Findings, word: str, run: RunRecord, *, swapped: int, again: int) -> None:
    out = run.log.events(Preempted)
    findings.equal(f"{word}_completed", run.num_ended(FinishReason.LENGTH), len(run.results))
    findings.equal(f"{word}_swapped", sum(event.swapped for event in out), swapped)
    refused = sum(event.cause is PreemptionCause.REFUSED for event in out)
    findings.equal(f"{word}_computed_again", sum(not event.swapped for event in out) - refused, again)
    findings.holds("the oldest yields to nobody", holds=run.of(0).num_preemptions == 0)
    findings.equal(f"{word}_forgotten", len(run.log.events(ForgetSaved)), len(run.log.events(SaveSequence)))
    findings.equal(f"{word}_kept_at_end", run.summary.snapshot.scheduler.kv.swapped_tokens, 0)


def _num_back(run: RunRecord) -> int:
    """Starts of requests that got their own KV back."""
    return sum(event.num_swapped_in > 0 for event in run.log.events(Admitted))
