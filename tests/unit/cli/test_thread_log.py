"""Changes of threads in the log."""

import asyncio
import logging
from dataclasses import replace

import pytest

from arriero.cli.thread_log import ThreadLog
from arriero.engine.options import EngineOptions
from arriero.engine.thread_advisor import ShiftCause, ThreadShift
from arriero.testing.machine import Machine
from tests.unit.engine.machines import TimedEngine, scaling_cost

COST = scaling_cost(1, 2)


async def test_each_change_is_one_line_and_nothing_else_is(caplog: pytest.LogCaptureFixture) -> None:
    timed = TimedEngine(Machine(COST, cores=2), EngineOptions(check=True, cost=COST))
    timed.engine.submit([1, 2, 3], 5, end_tokens=frozenset())
    (record, *_) = timed.run(3)
    log = ThreadLog(asyncio.get_running_loop())
    with caplog.at_level(logging.INFO):
        log.on_step(record)
        for cause in ShiftCause:
            log.on_step(replace(record, shift=ThreadShift(cause, 1, 2, 5.0)))
        assert caplog.records == [], "not on the engine's thread"
        await asyncio.sleep(0)
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO", "WARNING"]
    assert "steps took 5.0 times as long as predicted with 2 threads" in caplog.records[0].getMessage()
