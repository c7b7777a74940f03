"""Policies in an engine: who goes first, on whichever thread it runs, and what its journal says."""

import asyncio

import pytest

from arriero.backend.synthetic import SyntheticOptions
from arriero.core.errors import ConfigError, InvalidRequest
from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement
from arriero.record.journal_reader import read_lines
from arriero.record.journal_schema import StartRecord
from arriero.record.journal_setup import FairShareSetup
from arriero.scheduler.policy_spec import PolicySpec
from arriero.sim.replay import replay
from arriero.testing.fakes import ScriptedBackend
from tests.unit.engine.driving import ENDLESS, LIMIT_S, PLACEMENTS, StepLog
from tests.unit.engine.journals import engine_with_journal

ONE_SLOT = SyntheticOptions(num_sequences=1, num_rows=16, num_cells=64)
HOURS = 10_000_000_000
"""Microseconds of ageing: no test waits for one level of priority."""

ASKED = (
    ([1, 2], 0, None, "a"),
    ([1, 2, 3, 4], 5, 100_000, "a"),
    ([1, 2, 3], -5, None, "b"),
    ([1], 0, 200_000, "b"),
)


def options(word: str) -> EngineOptions:
    return EngineOptions(check=True, policy=PolicySpec(word=word, ageing=HOURS))


async def serve(engine: Engine, placement: Placement) -> None:
    """Let all be there before the first step."""
    handles = [
        engine.submit(prompt, 2, end_tokens=ENDLESS, priority=priority, deadline_ms=deadline_ms, tenant=tenant)
        for prompt, priority, deadline_ms, tenant in ASKED
    ]
    engine.start(placement)
    async with asyncio.timeout(LIMIT_S):
        for handle in handles:
            await handle.result()
        engine.shutdown()
        await engine.wait_closed()


@pytest.mark.anyio
@pytest.mark.parametrize("placement", PLACEMENTS, ids=["dedicated", "shared"])
@pytest.mark.parametrize(
    ("word", "order"),
    [
        ("fcfs", [1, 2, 3, 4]),
        ("priority", [3, 1, 4, 2]),
        ("shortest-prefill", [4, 1, 3, 2]),
        ("deadline", [2, 4, 1, 3]),
        ("fair-share", [1, 3, 2, 4]),
    ],
)
async def test_requests_start_in_the_order_of_the_policy(placement: Placement, word: str, order: list[int]) -> None:
    log = StepLog()
    await serve(Engine(ScriptedBackend(options=ONE_SLOT), options(word), observers=[log]), placement)
    assert [result.request_id for result in log.results] == order


@pytest.mark.anyio
async def test_a_journal_names_the_policy_and_numbers_the_tenants_and_can_be_replayed() -> None:
    engine, journal = engine_with_journal(ScriptedBackend(options=ONE_SLOT), options("fair-share"))
    await serve(engine, Dedicated())
    lines = journal.lines()
    start = next(read_lines(lines)).record
    assert isinstance(start, StartRecord)
    assert start.setup.policy == FairShareSetup(decode_weight=2)
    text = b"".join(lines)
    assert text.count(b'"tenant":0') == text.count(b'"tenant":1') == 2
    assert replay(read_lines(lines), check=True).requests == len(ASKED)


def test_a_priority_out_of_range_is_refused_at_once() -> None:
    engine = Engine(ScriptedBackend(options=ONE_SLOT), options("priority"))
    with pytest.raises(InvalidRequest, match="priority must be between -100 and 100, not 101") as caught:
        engine.submit([1], 2, priority=101)
    assert caught.value.field == "priority"


def test_the_longest_match_needs_something_to_match() -> None:
    with pytest.raises(ConfigError, match="longest-match goes by reused prefixes; use another policy, or leave out"):
        Engine(ScriptedBackend(options=ONE_SLOT), options("longest-match"))
