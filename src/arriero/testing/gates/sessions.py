"""G23 to G28 and G30 to G32: a session's next request continues in the slot of the last one, or is computed in full.

All of them run under the published rules, in both KV layouts: runs belong to a session and stay in their slots.
"""

from collections.abc import Sequence
from itertools import product
from typing import Final

from arriero.core.config import KvLayout
from arriero.core.events import AdmissionSource
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk
from arriero.core.request import FinishReason, Request
from arriero.engine.options import EngineOptions
from arriero.kv.reuse import EvictionCause, ReuseRules
from arriero.testing.gates.backends import Shape
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
    reuse_at_end,
)
from arriero.testing.gates.watch import CancelPlan

PROMPT: Final = 48
BUDGET: Final = 8
LEAST: Final = PUBLISHED_RULES.min_partial
REGENERATE: Final = ReuseRules(per_session=True, min_partial=LEAST, regenerate=True)


async def check_created(context: GateContext, findings: Findings) -> None:
    """G23: a completed request of a session leaves its run, one without a session none; the end clears all of them."""
    prompt = context.tokens(PROMPT)
    for layout in LAYOUTS:
        shape = Shape(num_sequences=2, positions=POSITIONS, layout=layout)
        options = EngineOptions(keep_alive=False, reuse=PUBLISHED_RULES)
        async with Rig(context, findings, shape, options) as rig:
            rig.submit(prompt, BUDGET, session_id="A", cache_scope="A")
            rig.submit(prompt, BUDGET)
            run = await rig.run()
        figures = reuse_at_end(run)
        findings.equal(f"{layout}_created", figures.sessions.resident_slots_created_count, 1)
        findings.equal(f"{layout}_cleared", figures.evictions.get(EvictionCause.TEARDOWN, 0), 1)
        findings.equal(f"{layout}_evicted", figures.sessions.resident_slots_evicted_count, 0)
        findings.equal(f"{layout}_left", figures.retained_runs, 0)


async def check_exact(context: GateContext, findings: Findings) -> None:
    """G24: a prompt that continues prompt and answer computes its new tokens only; the answer is a full prefill's."""
    first = context.tokens(6)
    for layout in LAYOUTS:
        async with open_turns(context, findings, layout, slots=2) as turns:
            answer = (await turns.ask(first, BUDGET, "A")).tokens
            prompt = (*first, *answer, *context.tokens(5, start=20))
            result = await turns.ask(prompt, BUDGET, "A")
            figures = await turns.published()
        skipped = len(first) + BUDGET - 1
        findings.equal(f"{layout}_reused", figures.session_reuse_admitted_count, 1)
        findings.equal(f"{layout}_skipped", figures.session_reuse_prefill_skipped_tokens, skipped)
        findings.equal(f"{layout}_cached", result.cached_tokens, skipped)
        findings.equal(f"{layout}_partial", figures.lcp_reuse_admitted_count, 0)
        findings.equal(f"{layout}_source", result.admission_source, AdmissionSource.SESSION_REUSE)
        by_hand = _by_hand(context, layout, first, answer, prompt)
        findings.holds(f"{layout}: the answer is that of the same rows by hand", holds=result.tokens == by_hand)
        await compare_with_fresh(context, findings, layout, prompt, result.tokens)


async def check_evicted(context: GateContext, findings: Findings) -> None:
    """G25: a third session takes the slot of the one that was used longest ago."""
    for layout in LAYOUTS:
        async with open_turns(context, findings, layout, slots=2) as turns:
            results = [
                await turns.ask(context.tokens(PROMPT, start=9 * number), BUDGET, session)
                for number, session in enumerate("ABC")
            ]
            figures = await turns.published()
        findings.equal(f"{layout}_evicted", figures.resident_slots_evicted_count, 1)
        findings.equal(f"{layout}_evicted_lru", figures.last_evicted_resident_lru, 1)
        reused = figures.session_reuse_admitted_count + figures.lcp_reuse_admitted_count
        findings.equal(f"{layout}_reused", reused, 0)
        findings.equal(f"{layout}_source", results[-1].admission_source, AdmissionSource.EVICTED_RECLAIM)


async def check_too_little(context: GateContext, findings: Findings) -> None:
    """G26: too few tokens in common are no reason to keep them: the run goes, the answer is that of a full prefill."""
    base = context.tokens(PROMPT)
    prompt = diverging(context, base, LEAST - 12, 30)
    for layout in LAYOUTS:
        async with open_turns(context, findings, layout, slots=1) as turns:
            await turns.ask(base, BUDGET, "A")
            result = await turns.ask(prompt, BUDGET, "A")
            figures = await turns.published()
        findings.equal(f"{layout}_cached", result.cached_tokens, 0)
        findings.equal(f"{layout}_partial", figures.lcp_reuse_admitted_count, 0)
        findings.equal(f"{layout}_evicted", figures.resident_slots_evicted_count, 1)
        await compare_with_fresh(context, findings, layout, prompt, result.tokens)


async def check_partial(context: GateContext, findings: Findings) -> None:
    """G27: enough tokens in common are kept, the rest of the run is trimmed; published: 43 and 12."""
    base = context.tokens(PROMPT)
    common = 43
    prompt = diverging(context, base, common, 15)
    for layout in LAYOUTS:
        async with open_turns(context, findings, layout, slots=2) as turns:
            await turns.ask(base, BUDGET, "A")
            result = await turns.ask(prompt, BUDGET, "A")
            figures = await turns.published()
        findings.equal(f"{layout}_partial", figures.lcp_reuse_admitted_count, 1)
        findings.equal(f"{layout}_matched", figures.lcp_reuse_matched_tokens, common)
        findings.equal(f"{layout}_trimmed", figures.lcp_reuse_trimmed_tokens, PROMPT + BUDGET - 1 - common)
        findings.equal(f"{layout}_exact", figures.session_reuse_admitted_count, 0)
        findings.equal(f"{layout}_preemptions", result.num_preemptions, 0)
        findings.equal(f"{layout}_source", result.admission_source, AdmissionSource.SESSION_REUSE_LCP)
        await compare_with_fresh(context, findings, layout, prompt, result.tokens)


async def check_boundary(context: GateContext, findings: Findings) -> None:
    """G28: 31 common tokens are not reused, 32 are."""
    base = context.tokens(PROMPT)
    for layout in LAYOUTS:
        for common, cached in ((LEAST - 1, 0), (LEAST, LEAST)):
            async with open_turns(context, findings, layout, slots=2) as turns:
                await turns.ask(base, BUDGET, "A")
                result = await turns.ask(diverging(context, base, common, 10), BUDGET, "A")
            findings.equal(f"{layout}_cached_of_{common}", result.cached_tokens, cached)


async def check_regenerate(context: GateContext, findings: Findings) -> None:
    """G30: nothing new to compute is no reuse, or, where the rules say so, all but the last token is reused."""
    base = context.tokens(PROMPT)
    asked = (("identical", base), ("prefix", base[:-4]), ("short", base[: LEAST - 1]))
    ways = (("off", PUBLISHED_RULES), ("on", REGENERATE))
    for layout, (word, rules), (name, prompt) in product(LAYOUTS, ways, asked):
        async with open_turns(context, findings, layout, slots=2, rules=rules) as turns:
            await turns.ask(base, BUDGET, "A")
            result = await turns.ask(prompt, BUDGET, "A")
            figures = await turns.published()
        enough = rules.regenerate and len(prompt) - 1 >= LEAST
        findings.equal(f"{layout}_{word}_{name}", result.cached_tokens, len(prompt) - 1 if enough else 0)
        reused = figures.lcp_reuse_admitted_count + figures.session_reuse_admitted_count
        findings.equal(f"{layout}_{word}_{name}_reused", reused, int(enough))


async def check_cancelled(context: GateContext, findings: Findings) -> None:
    """G31: a cancelled continuation leaves no run, so the next one is computed in full."""
    base = context.tokens(PROMPT)
    for layout in LAYOUTS:
        async with open_turns(context, findings, layout, slots=2) as turns:
            first = await turns.ask(base, BUDGET, "A")
            prompt = (*base, *first.tokens, *context.tokens(4, start=11))
            turns.rig.log.after_step(CancelPlan(turns.rig.engine.cancel, after_tokens={2: 3}))
            cancelled = await turns.ask(prompt, 100, "A")
            left = (await turns.figures()).retained_runs
            again = await turns.ask(prompt, BUDGET, "A")
        findings.equal(f"{layout}_status", cancelled.reason, FinishReason.CANCELLED)
        findings.equal(f"{layout}_reused_before", cancelled.cached_tokens, PROMPT + BUDGET - 1)
        findings.equal(f"{layout}_left", left, 0)
        findings.equal(f"{layout}_cached_after", again.cached_tokens, 0)
        await compare_with_fresh(context, findings, layout, prompt, again.tokens)


async def check_concurrent(context: GateContext, findings: Findings) -> None:
    """G32: of two requests of one session the second is computed in full; afterwards the longest match wins."""
    base = context.tokens(PROMPT)
    longer = (*base, *context.tokens(20, start=31))
    for layout in LAYOUTS:
        async with open_turns(context, findings, layout, slots=2) as turns:
            handles = [turns.submit(prompt, BUDGET, "A") for prompt in (base, longer)]
            results = [await handle.result() for handle in handles]
            prompt = (*longer, *results[1].tokens, *context.tokens(3, start=7))
            third = await turns.ask(prompt, BUDGET, "A")
        findings.equal(f"{layout}_cached", (each.cached_tokens for each in results), [0, 0])
        slots = sorted(-1 if each.sequence_id is None else each.sequence_id for each in results)
        findings.equal(f"{layout}_slots", slots, [0, 1])
        findings.equal(f"{layout}_third_cached", third.cached_tokens, len(longer) + BUDGET - 1)


def _by_hand(
    context: GateContext,
    layout: KvLayout,
    first: Sequence[TokenId],
    answer: Sequence[TokenId],
    prompt: Sequence[TokenId],
) -> tuple[TokenId, ...]:
    """G24 without an engine: a prompt, its answer row by row, then what is new in one chunk, and the next answer."""
    backend = context.backends.make(Shape(num_sequences=2, positions=POSITIONS, layout=layout))
    request = Request(request_id=RequestId(1), prompt=tuple(prompt), max_tokens=BUDGET, arrival_at=0)
    slot = SequenceId(0)
    try:
        backend.decode([PrefillChunk(request, slot, 0, tuple(first), wants_logits=True)])
        for place, token in enumerate(answer[:-1], len(first)):
            backend.decode([DecodeRow(request, slot, place, token)])
        start = len(first) + len(answer) - 1
        rest = PrefillChunk(request, slot, start, tuple(prompt[start:]), wants_logits=True)
        said = [int(backend.decode([rest])[0].argmax())]
        while len(said) < BUDGET:
            row = DecodeRow(request, slot, len(prompt) + len(said) - 1, said[-1])
            said.append(int(backend.decode([row])[0].argmax()))
    finally:
        backend.close()
    return tuple(said)
