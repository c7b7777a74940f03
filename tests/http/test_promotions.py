"""A5: who starts while somebody more urgent waits is counted."""

import asyncio

import pytest

from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.http.metrics import Metrics
from arriero.scheduler.policy_spec import PolicySpec
from arriero.testing.fakes import ScriptedBackend
from tests.unit.engine.test_policies import HOURS, ONE_SLOT


@pytest.mark.anyio
@pytest.mark.parametrize(("ageing", "promoted"), [(0, 1), (HOURS, 0)])
async def test_a5_a_promotion_is_counted(ageing: int, promoted: int) -> None:
    metrics = Metrics()
    options = EngineOptions(policy=PolicySpec(word="priority", ageing=ageing))
    engine = Engine(ScriptedBackend(options=ONE_SLOT), options, observers=[metrics])
    handles = [engine.submit([1], 2, priority=level) for level in (10, 0, 0)]
    engine.start(Dedicated())
    async with asyncio.timeout(20):
        for handle in handles:
            await handle.result()
        engine.shutdown()
        await engine.wait_closed()
    assert metrics.tally.count("promotions") == promoted
