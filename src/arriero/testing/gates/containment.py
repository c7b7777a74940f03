"""G47 to G49: limits are kept, what cannot fit is refused, and one bad request harms no other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from arriero.backend.protocol import Backend
from arriero.core.errors import ContextTooLong
from arriero.core.ids import TokenId
from arriero.core.request import FinishReason, SamplingParams
from arriero.engine.handle import RequestHandle
from arriero.engine.options import EngineOptions
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import FailedRequest, FailedSampler, Fault
from arriero.testing.gates.backends import Backends, Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.tokens.vocabulary import Vocabulary

CULPRIT: Final = 1
FOUR: Final = 4
SMALL_BATCH: Final = 32
PROMPT_LENGTH: Final = 50


async def check_small_batch(context: GateContext, findings: Findings) -> None:
    """G47: more prompt rows than a batch holds come in several batches, and in exact mode give the same tokens."""
    for exact in (False, True):
        word = "exact" if exact else "plain"
        context.on_progress(word)
        small, large = [await _four(context, findings, num_rows, exact=exact) for num_rows in (SMALL_BATCH, None)]
        most = max(record.plan.shape.num_rows for record in small.log.computed())
        findings.equal(f"max_rows_{word}", most, SMALL_BATCH)
        findings.equal(f"completed_{word}", small.num_ended(FinishReason.LENGTH), FOUR)
        same = sum(one.tokens == other.tokens for one, other in zip(small.results, large.results, strict=True))
        if exact:
            findings.equal("same_tokens_exact", same, FOUR)
        else:
            findings.count("same_tokens_plain", same)


async def _four(context: GateContext, findings: Findings, num_rows: int | None, *, exact: bool) -> RunRecord:
    budget = context.size.budgets[0]
    shape = Shape(num_sequences=FOUR, positions=PROMPT_LENGTH + budget, num_rows=num_rows, exact=True)
    async with Rig(context, findings, shape, EngineOptions(keep_alive=False, exact=exact)) as rig:
        for number in range(FOUR):
            rig.submit(context.tokens(PROMPT_LENGTH, number), budget, request_id=number)
        return await rig.run()


async def check_context_fit(context: GateContext, findings: Findings) -> None:
    """G48: a request that fills its sequence to the last cell completes; one token more is refused at the door."""
    budget = context.size.budgets[0]
    async with Rig(context, findings, Shape(num_sequences=1, positions=1), EngineOptions(backlog=1)) as rig:
        limit = rig.engine.limits.sequence_limit
        prompt = context.tokens(limit - budget + 1)
        rig.start()
        refused = 0
        for too_long in ((prompt, budget + 1), (context.tokens(len(prompt) + 1), budget)):
            try:
                rig.submit(*too_long)
            except ContextTooLong as error:
                refused += 1
                findings.equal("needed", error.needed, limit + 1)
        findings.equal("refused", refused, 2)
        findings.equal("in_flight_after_refusal", rig.engine.door.in_flight, 0)
        snapshot = await rig.engine.ask_snapshot()
        findings.equal("submitted_after_refusal", snapshot.totals.submitted, 0)
        result = await rig.submit(prompt, budget).result()
        findings.equal("in_flight_at_end", rig.engine.door.in_flight, 0)
        await rig.stop()
    findings.count("sequence_limit", limit)
    findings.equal("status", result.reason, FinishReason.LENGTH)
    findings.equal("num_decoded", result.num_decoded, budget)
    findings.equal("pos_max", result.pos_max_at_clear, limit - 1)


async def check_faults(context: GateContext, findings: Findings) -> None:
    """G49: a sampler or a decode call that fails for one of three requests ends that one only."""
    expected = [await _alone(context, findings, number) for number in (0, 1, 2, 3)]
    for word, fault in (("sampler", FailedSampler(CULPRIT, after=2)), ("decode", FailedRequest(CULPRIT))):
        faulty = replace(context, backends=Wrapped(context.backends, _with(fault)))
        shape = _shape(context, 3)
        async with Rig(faulty, findings, shape, EngineOptions(exact=True)) as rig:
            rig.start()
            handles = [_ask(rig, context, number) for number in (0, 1, 2)]
            for handle in handles:
                await handle.result()
            await _ask(rig, context, 3).result()
            findings.holds(f"{word}: the engine takes new work", holds=rig.engine.health.accepting)
            run = await rig.stop()
        culprit = run.of(CULPRIT)
        findings.equal(f"{word}_status", culprit.reason, FinishReason.FAILED)
        findings.equal(f"{word}_code", None if culprit.error is None else culprit.error.code, f"{word}_failed")
        findings.equal(f"{word}_failed", run.summary.snapshot.totals.failed, 1)
        same = sum(run.of(number).tokens == expected[number] for number in (0, 2, 3))
        findings.equal(f"{word}_others_as_alone", same, 3)


class Wrapped:
    """The backends of somebody else, each inside a wrapper."""

    def __init__(self, inner: Backends, wrap: Callable[[Backend], Backend]) -> None:
        """`wrap` is called for each backend; closing the wrapper closes what is inside."""
        self._inner = inner
        self._wrap = wrap

    @property
    def vocabulary(self) -> Vocabulary:
        """The inner one's."""
        return self._inner.vocabulary

    def make(self, shape: Shape) -> Backend:
        """A fresh wrapped backend."""
        return self._wrap(self._inner.make(shape))


def _with(fault: Fault) -> Callable[[Backend], Backend]:
    return lambda backend: FaultyBackend(backend, fault)


def _shape(context: GateContext, num_sequences: int) -> Shape:
    return Shape(num_sequences=num_sequences, positions=PROMPT_LENGTH + context.size.budgets[1], exact=True)


def _ask(rig: Rig, context: GateContext, number: int) -> RequestHandle:
    """One of the requests; the culprit's is sampled, so that it has a sampler which can fail."""
    sampling = SamplingParams(temperature=1.0, seed=42) if number == CULPRIT else None
    prompt = context.tokens(PROMPT_LENGTH, number)
    return rig.submit(prompt, context.size.budgets[1], request_id=number, sampling=sampling)


async def _alone(context: GateContext, findings: Findings, number: int) -> tuple[TokenId, ...]:
    async with Rig(context, findings, _shape(context, 1), EngineOptions(keep_alive=False, exact=True)) as rig:
        _ask(rig, context, number)
        return (await rig.run()).of(number).tokens
