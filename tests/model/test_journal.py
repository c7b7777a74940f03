"""Journals of the real model repeat every decision: thirty requests that share beginnings, cancels, little memory."""

import asyncio
import random

import pytest

from arriero.backend.context import ContextOptions
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.engine.engine import Engine
from arriero.engine.explain_book import ExplainBook
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.record.journal_reader import read_lines
from arriero.sim.replay import replay
from tests.model.conftest import MakeBackend
from tests.unit.engine.journals import AtEachStep, engine_with_journal, explained

pytestmark = pytest.mark.model

NUM_REQUESTS = 30
LIMIT_S = 100.0
SYSTEM = "You are a mule driver who answers in few words. "
QUESTIONS = ("Where is the pass? ", "Who carries the load? ", "What is the weather like in the valley? ")


async def ask(engine: Engine, vocabulary: LlamaVocabulary, rng: random.Random) -> None:
    """Requests that come while others run; the first ones are those of one conversation."""
    handles = []
    for number in range(NUM_REQUESTS):
        prompt = vocabulary.encode(
            SYSTEM + "".join(rng.choices(QUESTIONS, k=1 + number % 3)), add_special=True, parse_special=False
        )
        handle = engine.submit(prompt, rng.randint(2, 24), timeout_ms=2 if number % 10 == 9 else None)
        handles.append(handle)
        if number % 7 == 3:
            handle.cancel()
        if number % 3 == 2:
            await handles[number // 2].result()
    await asyncio.gather(*(handle.result() for handle in handles))


def canceller(rng: random.Random) -> AtEachStep:
    """Cancels one of the batch at one step in eight."""

    def act(record: StepRecord) -> None:
        if record.plan.rows and rng.random() < 0.125:
            observer.cancel(rng.choice(record.plan.rows).request.request_id)

    observer = AtEachStep(act)
    return observer


@pytest.mark.parametrize(
    ("placement", "unified", "exact"),
    [(Dedicated(), True, False), (Shared(), False, False), (Dedicated(), False, True)],
    ids=["dedicated-unified", "shared-separate", "dedicated-exact"],
)
def test_thirty_requests_with_cancels_are_replayed(
    make_backend: MakeBackend,
    vocabulary: LlamaVocabulary,
    placement: Placement,
    unified: bool,  # noqa: FBT001 - a table
    exact: bool,  # noqa: FBT001 - a table
) -> None:
    rng = random.Random(f"{unified} {exact}")
    # the unified pool holds about four of these requests, so some of them lose their places
    backend: LlamaCppBackend = make_backend(
        ContextOptions(
            ctx_size=256 if unified else 6 * 256,
            num_sequences=6,
            num_rows=128,
            micro_batch=64,
            num_threads=1,
            unified=unified,
        )
    )
    cancels, book = canceller(rng), ExplainBook()
    engine, journal = engine_with_journal(backend, EngineOptions(exact=exact, check=True), [cancels, book])
    cancels.cancel = engine.cancel

    async def main() -> None:
        engine.start(placement)
        async with asyncio.timeout(LIMIT_S):
            await ask(engine, vocabulary, rng)
            engine.shutdown()
            summary = await engine.wait_closed()
        assert summary.crashed is None

    asyncio.run(main())
    lines = journal.lines()
    report = replay(read_lines(lines), check=True)
    assert (report.runs, report.unfinished, report.requests) == (1, 0, NUM_REQUESTS)
    assert report.cancels > 0
    assert b'"cancel_observed"' in b"".join(lines)
    told = explained(lines).requests
    assert len(told) == NUM_REQUESTS
    for each in told:
        assert book.find(each.request_id) == each
        assert each.split.total == each.total
        assert min(each.split.values) >= 0
