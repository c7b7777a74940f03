"""G29 and G50 to G52: whose runs may be used, how many are kept, who may overtake, and what a refused trim costs."""

from dataclasses import replace
from itertools import product
from typing import Final

from arriero.core.config import KvLayout
from arriero.core.events import Admitted, TrimSequence
from arriero.core.ids import Time
from arriero.core.request import FinishReason
from arriero.engine.actor import monotonic_us
from arriero.engine.handle import Result
from arriero.engine.options import EngineOptions
from arriero.kv.reuse import EvictionCause, ReuseRules
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import RefusedOp
from arriero.testing.gates.backends import STREAM_CELLS, Shape
from arriero.testing.gates.containment import Wrapped
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.turns import (
    LAYOUTS,
    POSITIONS,
    PUBLISHED_RULES,
    compare_with_fresh,
    diverging,
    open_turns,
    reuse_of,
)

PROMPT: Final = 48
BUDGET: Final = 8
MAX_OVERTAKES: Final = 8
MAX_AGE: Final[Time] = 600_000_000
GLOBAL: Final = ReuseRules()


async def check_scopes(context: GateContext, findings: Findings) -> None:
    """G29: another scope's run is never used; one of the same scope is, whoever computed it, ended or running."""
    base = context.tokens(PROMPT)
    prompt = diverging(context, base, PROMPT - 5, 20)
    ways = (("session", PUBLISHED_RULES), ("global", GLOBAL))
    for layout, (word, rules), other in product(LAYOUTS, ways, "AB"):
        async with open_turns(context, findings, layout, slots=2, rules=rules, retained=2) as turns:
            await turns.ask(base, BUDGET, "A")
            result = await turns.ask(prompt, BUDGET, other)
        _check_cached(findings, f"{layout}_{word}", other, result)
    for layout, other in product(LAYOUTS, "AB"):
        _check_cached(findings, f"{layout}_running", other, await _beside_running(context, findings, layout, other))


def _check_cached(findings: Findings, name: str, scope: str, result: Result) -> None:
    same = scope == "A"
    findings.equal(f"{name}_{'same' if same else 'other'}_cached", result.cached_tokens, PROMPT - 5 if same else 0)


async def _beside_running(context: GateContext, findings: Findings, layout: KvLayout, scope: str) -> Result:
    """A request that arrives while one of scope A decodes after the same beginning."""
    base = context.tokens(PROMPT)
    prompt = diverging(context, base, PROMPT - 5, 20)
    shape = Shape(num_sequences=2, positions=POSITIONS, layout=layout)
    async with Rig(context, findings, shape, EngineOptions(reuse=GLOBAL)) as rig:
        rig.start()
        first = rig.submit(base, 60, cache_scope="A")
        await rig.read(first, 3)
        result = await rig.submit(prompt, BUDGET, cache_scope=scope).result()
        await first.result()
        await rig.stop()
    return result


async def check_bounds(context: GateContext, findings: Findings) -> None:
    """G50: number, age and pool each make a run go, each with a count of its own."""
    prompts = [context.tokens(PROMPT, start=9 * number) for number in range(3)]
    for layout in LAYOUTS:
        rules = replace(PUBLISHED_RULES, max_retained=1)
        async with open_turns(context, findings, layout, slots=3, rules=rules) as turns:
            for prompt, session in zip(prompts, "ABC", strict=True):
                await turns.ask(prompt, BUDGET, session)
            figures = await turns.figures()
        findings.equal(f"{layout}_count", figures.evictions.get(EvictionCause.COUNT, 0), 2)
        findings.equal(f"{layout}_count_left", figures.retained_runs, 1)
        await _check_age(context, findings, layout)
    await _check_pool(context, findings)


async def _check_age(context: GateContext, findings: Findings, layout: KvLayout) -> None:
    """A run that nobody used for so long is gone when somebody asks."""
    late: list[Time] = [0]
    rules = replace(PUBLISHED_RULES, max_age=MAX_AGE)
    base = context.tokens(PROMPT)

    def clock() -> Time:
        return monotonic_us() + late[0]

    async with open_turns(context, findings, layout, slots=2, rules=rules, clock=clock) as turns:
        first = await turns.ask(base, BUDGET, "A")
        late[0] = MAX_AGE // 2
        in_time = await turns.ask((*base, *first.tokens, *base[:3]), BUDGET, "A")
        late[0] = 2 * MAX_AGE
        too_late = await turns.ask((*base, *first.tokens, *base[:3], *in_time.tokens, *base[:3]), BUDGET, "A")
        figures = await turns.figures()
    findings.equal(f"{layout}_in_time", in_time.cached_tokens, PROMPT + BUDGET - 1)
    findings.equal(f"{layout}_too_late", too_late.cached_tokens, 0)
    findings.equal(f"{layout}_age", figures.evictions.get(EvictionCause.AGE, 0), 1)


async def _check_pool(context: GateContext, findings: Findings) -> None:
    """In one pool for all, a run makes way for a request that needs its cells."""
    shape = Shape(num_sequences=3, positions=1, cells=STREAM_CELLS, layout=KvLayout.UNIFIED)
    async with open_turns(context, findings, KvLayout.UNIFIED, slots=3, shape=shape) as turns:
        limit = turns.rig.engine.limits.num_cells
        long = context.tokens(limit // 2)
        await turns.ask(long, BUDGET, "A")
        result = await turns.ask(context.tokens(limit // 2, start=5), BUDGET, "B")
        figures = await turns.figures()
    findings.equal("unified_pool", figures.evictions.get(EvictionCause.POOL, 0), 1)
    findings.equal("unified_pool_status", result.reason, FinishReason.LENGTH)


async def check_overtaking(context: GateContext, findings: Findings) -> None:
    """G51: a session that keeps continuing delays somebody else by a bounded number of admissions."""
    base = context.tokens(PROMPT)
    turns_of_session = [(*base, *context.tokens(3 + number, start=5 + number)) for number in range(MAX_OVERTAKES + 4)]
    for layout in LAYOUTS:
        context.on_progress(layout.value)
        shape = Shape(num_sequences=1, positions=POSITIONS, layout=layout)
        async with Rig(context, findings, shape, EngineOptions(keep_alive=False, reuse=PUBLISHED_RULES)) as rig:
            rig.submit(turns_of_session[0], BUDGET, request_id=0, session_id="A", cache_scope="A")
            rig.submit(context.tokens(PROMPT, start=25), BUDGET, request_id=99)
            for number, prompt in enumerate(turns_of_session[1:], 1):
                rig.submit(prompt, BUDGET, request_id=number, session_id="A", cache_scope="A")
            run = await rig.run()
        order = [int(event.request.request_id) for event in run.log.events(Admitted)]
        findings.equal(f"{layout}_overtaken_by", order.index(99) - 1, MAX_OVERTAKES)
        snapshot = run.summary.snapshot.scheduler
        findings.equal(f"{layout}_overtakes", snapshot.reuse_overtakes, MAX_OVERTAKES)
        completed = run.num_ended(FinishReason.LENGTH)
        findings.equal(f"{layout}_completed", completed, len(turns_of_session) + 1)


async def check_refused_trim(context: GateContext, findings: Findings) -> None:
    """G52: where memory refuses to trim a run, the prompt is computed in full, and the answer is the same."""
    base = context.tokens(PROMPT)
    prompt = diverging(context, base, PROMPT - 5, 12)
    refusing = replace(
        context, backends=Wrapped(context.backends, lambda inner: FaultyBackend(inner, RefusedOp(TrimSequence, 0)))
    )
    for layout in LAYOUTS:
        async with open_turns(refusing, findings, layout, slots=2) as turns:
            await turns.ask(base, BUDGET, "A")
            result = await turns.ask(prompt, BUDGET, "A")
            figures = reuse_of((await turns.rig.engine.ask_snapshot()).scheduler.reuse)
        findings.equal(f"{layout}_refused", figures.sessions.lcp_trim_refused, 1)
        findings.equal(f"{layout}_partial", figures.sessions.lcp_reuse_admitted_count, 0)
        findings.equal(f"{layout}_status", result.reason, FinishReason.LENGTH)
        await compare_with_fresh(context, findings, layout, prompt, result.tokens)
