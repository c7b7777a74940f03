"""The reference: G1 and G2 as a bare loop over the backend, to be read as the executable specification.

No scheduler, no actor, no streams: all prompts in one batch, then one row a sequence a step, and a sequence is cleared
when its budget is reached. The engine must give the same tokens, hashes, step numbers and positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from arriero.backend.protocol import Backend
from arriero.core.errors import InvariantViolation
from arriero.core.events import DropSequence
from arriero.core.ids import RequestId, SequenceId, StepNumber, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.primitive import run_mix
from arriero.testing.gates.registry import Gate


@dataclass(slots=True)
class Spoken:
    """What the bare loop knows of one sequence."""

    budget: int
    tokens: list[TokenId] = field(default_factory=list[TokenId])
    token_hash: int = 0xCBF29CE484222325
    done_step: StepNumber = -1
    pos_max: int = -1

    def say(self, token: TokenId) -> None:
        """Take a token and fold it into the hash."""
        self.tokens.append(token)
        self.token_hash = ((self.token_hash ^ token) * 0x100000001B3) % 2**64


def bare_loop(backend: Backend, prompt: tuple[TokenId, ...], budgets: Sequence[int]) -> list[Spoken]:
    """One sequence for each budget, all of one prompt, greedy, to the end.

    Raises:
        InvariantViolation: clearing a sequence left something, or touched another one.
    """
    spoken = [Spoken(budget) for budget in budgets]
    rows: list[Row] = []
    for i, budget in enumerate(budgets):
        request = Request(request_id=RequestId(i), prompt=prompt, max_tokens=budget, arrival_at=0)
        rows.append(PrefillChunk(request, SequenceId(i), 0, prompt, wants_logits=True))
    step = 0
    while rows:
        tokens = backend.decode(rows).argmax(axis=1).tolist()
        following: list[Row] = []
        for row, token in zip(rows, tokens, strict=True):
            said = spoken[row.sequence_id]
            said.say(token)
            if len(said.tokens) == said.budget:
                said.done_step, said.pos_max = step, _clear(backend, row.sequence_id, len(budgets))
            else:
                following.append(DecodeRow(row.request, row.sequence_id, row.start + row.num_rows, token))
        rows = following
        step += 1
    return spoken


def _clear(backend: Backend, sequence_id: SequenceId, num_sequences: int) -> int:
    """Clear one sequence and look at all; returns its highest position before."""
    before = {i: backend.positions(SequenceId(i)) for i in range(num_sequences)}
    span = before.pop(sequence_id)
    backend.apply(DropSequence(sequence_id))
    after = {i: backend.positions(SequenceId(i)) for i in range(num_sequences)}
    if span is None or after.pop(sequence_id) is not None or before != after:
        message = f"clearing sequence {sequence_id} left something or touched another one"
        raise InvariantViolation(message)
    return span[1]


async def check_three(context: GateContext, findings: Findings) -> None:
    """G1, compared."""
    await _compare(context, findings, len(context.size.budgets))


async def check_full_batch(context: GateContext, findings: Findings) -> None:
    """G2, compared."""
    await _compare(context, findings, context.size.num_sequences)


async def _compare(context: GateContext, findings: Findings, num_sequences: int) -> None:
    budgets = [context.size.budget_of(number) for number in range(num_sequences)]
    backend = context.backends.make(context.shape_of_mix(num_sequences))
    context.on_progress("the bare loop")
    try:
        spoken = bare_loop(backend, context.prompt, budgets)
    finally:
        backend.close()
    context.on_progress("the engine")
    run = await run_mix(context, findings, num_sequences)
    pairs = list(zip(spoken, run.results, strict=True))
    findings.equal("same_tokens", sum(tuple(one.tokens) == other.tokens for one, other in pairs), num_sequences)
    findings.equal("same_hashes", sum(one.token_hash == other.token_hash for one, other in pairs), num_sequences)
    findings.equal("same_steps", sum(one.done_step == other.done_step for one, other in pairs), num_sequences)
    findings.equal("same_positions", sum(one.pos_max == other.pos_max_at_clear for one, other in pairs), num_sequences)
    findings.equal("decode_calls", run.summary.snapshot.totals.decode_calls, max(each.done_step for each in spoken) + 1)


REFERENCE = (
    Gate("G1", "three sequences as the bare loop computes them", check_three),
    Gate("G2", "a full batch as the bare loop computes it", check_full_batch),
)
