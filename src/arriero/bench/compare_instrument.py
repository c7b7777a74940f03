"""The instrument of a comparison: the load generator, over HTTP."""

import asyncio
from typing import Final

from arriero.bench.client import HttpTarget
from arriero.bench.client_options import HttpOptions
from arriero.bench.compare_rounds import Reading
from arriero.bench.compare_sides import SideSpec
from arriero.bench.runner import Driver, LiveDriver
from arriero.bench.runner_points import Rules, measure
from arriero.bench.schedule import Schedule

LOOK_S: Final = 0.2
"""How long the machine is looked at before each round: enough to see a busy process, and short beside the round."""


class Generator:
    """Runs schedules with the load generator; an `Instrument`."""

    def __init__(self, rules: Rules, stop: asyncio.Event) -> None:
        """Measure nothing yet.

        Args:
            rules: by which rounds are judged valid.
            stop: set by whoever wants the end now.
        """
        self._rules = rules
        self._stop = stop

    async def read(self, driver: Driver, schedule: Schedule) -> Reading:
        """Run and measure."""
        run = await driver.run(schedule, stop=self._stop)
        return Reading(measure(run, self._rules), run.lives, interrupted=run.came.interrupted)


def http_driver(url: str, side: SideSpec, server_pids: tuple[int, ...]) -> LiveDriver:
    """A client for a side's server at an address."""
    options = HttpOptions(name=side.name, fields=side.fields, send_request_id=side.takes_request_ids)
    target = HttpTarget(url, options)
    return LiveDriver(target, server_pids=server_pids, look_s=LOOK_S)
