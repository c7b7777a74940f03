"""A server of the rig in virtual time: a decode call takes what it is told, and nothing waits for the machine."""

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec

from arriero.engine.placement import Shared
from arriero.testing.virtual_work import TimedSteps, WorkLoop, run_working, work_loop
from tests.http.rig import Json, Rig, serving

P = ParamSpec("P")

STEP_US = 10_000
ROW_US = 1_000


@dataclass
class Timed:
    """A server and its clock."""

    rig: Rig
    loop: WorkLoop

    @property
    def now_us(self) -> int:
        return self.loop.time_us()

    def computed(self) -> set[int]:
        """Requests of which a row was computed."""
        return {int(row.request.request_id) for record in self.rig.witness.records for row in record.plan.rows}


@asynccontextmanager
async def timed(*, step_us: int = STEP_US, row_us: int = ROW_US, **more: Json) -> AsyncGenerator[Timed]:
    loop = work_loop()
    steps = TimedSteps(loop, base_us=step_us, row_us=row_us)
    async with serving(clock=loop.time_us, placement=Shared(), faults=[steps], **more) as rig:
        yield Timed(rig, loop)


def virtual(scenario: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a scenario in virtual time."""

    @functools.wraps(scenario)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        run_working(scenario(*args, **kwargs))

    return test
