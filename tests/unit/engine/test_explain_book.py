"""The book of a live engine: who is alive, who has ended lately, and no more than that."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from arriero.core.plan import Row
from arriero.costmodel.calibrated import CalibratedCost
from arriero.engine.engine import Engine
from arriero.engine.explain_book import TOGETHER, ExplainBook
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Shared
from arriero.metrics.explain_parts import Basis, Explanation, Part, State
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import BlockedCall, Fault
from tests.unit.costmodel.test_calibrated import COST
from tests.unit.engine.driving import CHECKED, ENDLESS, StepLog, running
from tests.unit.engine.journals import engine_with_journal, explained

pytestmark = pytest.mark.anyio


class CrashAt(Fault):
    """Something that no backend should ever raise, at one call."""

    def __init__(self, call: int) -> None:
        self._call = call

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        if call == self._call:
            message = f"a bug in {len(rows)} rows"
            raise ZeroDivisionError(message)


def found(book: ExplainBook, request_id: int) -> Explanation:
    each = book.find(request_id)
    assert each is not None
    return each


async def test_who_ended_lately_is_explained_and_who_ended_before_is_forgotten() -> None:
    book, log = ExplainBook(kept=3), StepLog()
    async with running(ScriptedBackend(), Dedicated(), observers=[book, log]) as engine:
        for _ in range(5):
            await engine.submit([1, 2, 3], 4, end_tokens=ENDLESS).result()
        await engine.ask_snapshot()
        assert book.num_kept == 3
        assert [book.find(number) is None for number in range(1, 7)] == [True, True, False, False, False, True]
        for result in log.results[2:]:
            each = found(book, result.request_id)
            assert each.ending.state is State.LENGTH
            assert each.split.total == each.total == result.finished_at - result.arrival_at
            assert each.ttft == (result.first_token_at or 0) - result.arrival_at
            assert (each.num_tokens, each.prompt_tokens, each.basis) == (4, 3, Basis.ROWS)


async def test_thousands_of_requests_leave_no_more_than_a_thousand_behind() -> None:
    book = ExplainBook()
    async with running(ScriptedBackend(), Shared(), EngineOptions(), observers=[book]) as engine:
        handles = [engine.submit([1], 1, end_tokens=ENDLESS) for _ in range(1_200)]
        await asyncio.gather(*(handle.result() for handle in handles))
        await engine.ask_snapshot()
        found(book, 1_200)
        assert book.num_kept == 1_000
        assert book.find(200) is None


async def test_a_request_is_explained_while_a_decode_call_holds_the_engine() -> None:
    blocked = BlockedCall(2)
    book = ExplainBook()
    backend = FaultyBackend(ScriptedBackend(), blocked)
    async with running(backend, Dedicated(), observers=[book]) as engine:
        handle = engine.submit([1, 2, 3], 6, end_tokens=ENDLESS)
        await asyncio.to_thread(blocked.entered.wait, 20)
        each = found(book, 1)
        assert (each.ending.state, each.num_tokens) == (State.RUNNING, 2)
        assert each.split.total == each.total
        blocked.release.set()
        await handle.result()


@pytest.mark.parametrize("num_tokens", [2, TOGETHER + 5])
async def test_steps_are_told_before_the_engine_sleeps_though_nobody_asks(num_tokens: int) -> None:
    told, done = list[Explanation](), threading.Event()

    def tell(each: Explanation) -> None:
        told.append(each)
        done.set()

    async with running(ScriptedBackend(), Dedicated(), observers=[ExplainBook(tell=tell)]) as engine:
        await engine.submit([1], num_tokens, end_tokens=ENDLESS).result()
        assert await asyncio.to_thread(done.wait, 20)
    assert [each.num_tokens for each in told] == [num_tokens]


async def test_a_crash_leaves_those_alive_unfinished_up_to_the_last_step_that_is_known() -> None:
    book = ExplainBook()
    engine = Engine(FaultyBackend(ScriptedBackend(), CrashAt(3)), CHECKED, observers=[book])
    engine.submit([1, 2, 3], 9, end_tokens=ENDLESS)
    engine.start(Dedicated())
    summary = await engine.wait_closed()
    assert summary.crashed is not None
    each = found(book, 1)
    assert (each.ending.state, each.num_tokens, each.e2e) == (State.UNFINISHED, 3, None)
    assert each.split.total == each.total


async def test_who_was_given_up_at_the_end_waited_until_then() -> None:
    book = ExplainBook()
    options = EngineOptions(check=True, published_pools=False)
    engine = Engine(ScriptedBackend(), options, observers=[book])
    active = [engine.submit([1], 2, preloaded=True, end_tokens=ENDLESS) for _ in range(engine.limits.num_sequences)]
    waiter = engine.submit([1], 2)
    engine.start(Dedicated())
    for handle in active:
        await handle.result()
    engine.shutdown()
    result = await waiter.result()
    await engine.wait_closed()
    each = found(book, int(result.request_id))
    assert each.ending.state is State.ABORTED
    assert each.split.named == {"queue": result.finished_at - result.arrival_at}


@pytest.mark.parametrize("cost", [None, COST], ids=["rows", "cost"])
async def test_the_journal_of_a_live_engine_tells_what_its_book_tells(cost: CalibratedCost | None) -> None:
    book = ExplainBook(cost)
    engine, journal = engine_with_journal(ScriptedBackend(), replace(CHECKED, cost=cost), observers=[book])
    engine.start(Dedicated())
    handles = [engine.submit([number] * 9, 3 + number, end_tokens=ENDLESS) for number in range(1, 12)]
    handles[-1].cancel()
    for handle in handles:
        await handle.result()
    engine.shutdown()
    await engine.wait_closed()
    run = explained(journal.lines())
    assert run.evidence == "MEASURED"
    assert run.basis is (Basis.ROWS if cost is None else Basis.COST)
    assert len(run.requests) == 11
    assert {each.request_id: each for each in run.requests} == {number: found(book, number) for number in range(1, 12)}
    assert sum(each.split.of(Part.HOST) for each in run.requests) > 0
