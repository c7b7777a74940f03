"""G1 and G2: the simplest whole runs, everything preloaded and nothing cancelled."""

from arriero.core.request import FinishReason
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord


async def run_mix(context: GateContext, findings: Findings, num_sequences: int) -> RunRecord:
    """One preloaded request for each slot, budgets dealt round-robin, to the end."""
    budgets = [context.size.budget_of(number) for number in range(num_sequences)]
    async with Rig(context, findings, context.shape_of_mix(num_sequences)) as rig:
        rig.preload(context.prompt, *budgets)
        return await rig.run()


async def check_three(context: GateContext, findings: Findings) -> None:
    """G1: three sequences of one prompt say the same as long as they speak, and end when their budgets say."""
    budgets = context.size.budgets
    run = await run_mix(context, findings, len(budgets))
    num_prompt = len(context.prompt)
    findings.count("prompt_tokens", num_prompt)
    findings.equal("done_steps", (each.done_step for each in run.results), (budget - 1 for budget in budgets))
    findings.equal(
        "pos_max",
        (-1 if each.pos_max_at_clear is None else each.pos_max_at_clear for each in run.results),
        (num_prompt + budget - 2 for budget in budgets),
    )
    longest = run.results[-1].tokens
    for each in run.results:
        findings.holds(
            f"request {each.request_id} begins as the longest answer does",
            holds=each.tokens == longest[: each.num_decoded],
        )
    findings.count("hash_longest", f"0x{run.results[-1].token_hash:016x}")


async def check_full_batch(context: GateContext, findings: Findings) -> None:
    """G2: as many sequences as there are slots, one decode call a step, one hash a class, and the same again."""
    size = context.size
    first = await run_mix(context, findings, size.num_sequences)
    context.on_progress("again")
    second = await run_mix(context, findings, size.num_sequences)
    findings.equal("decode_calls", first.summary.snapshot.totals.decode_calls, max(size.budgets))
    findings.equal("completed", first.num_ended(FinishReason.LENGTH), size.num_sequences)
    for budget in size.budgets:
        alike = [each for each in first.results if each.decode_budget == budget]
        findings.equal(f"done_steps_{budget}", sorted({each.done_step for each in alike}), [budget - 1])
        findings.equal(f"hashes_{budget}", len({each.token_hash for each in alike}), 1)
        findings.count(f"hash_{budget}", f"0x{alike[0].token_hash:016x}")
    findings.holds("the second run is the first one again", holds=first.outline() == second.outline())
