import asyncio
from typing import cast

import pytest

from arriero.bench.calibration import Calibration, CalibrationOptions, calibrate_on
from arriero.bench.client import HttpTarget
from arriero.bench.null_server import NullServer
from arriero.core.errors import ConfigError
from arriero.testing.bad_servers import BadServer, Close
from arriero.testing.memory_network import MemoryNetwork
from arriero.testing.virtual_loop import VirtualLoop, run_virtual, virtual_pace
from tests.unit.bench.client_rig import MS

OPTIONS = CalibrationOptions()


def calibrated(latency_s: float, *, bad: bool = False) -> Calibration:
    async def main() -> Calibration:
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        server = BadServer([Close()]) if bad else NullServer(OPTIONS.server, loop.time_ns)
        network = MemoryNetwork(server.connection, latency_s=latency_s)
        target = HttpTarget("http://null", clock=loop.time_ns, network=network)
        try:
            return await calibrate_on(target, OPTIONS, virtual_pace())
        finally:
            await target.close()

    return run_virtual(main())


def test_the_way_to_the_server_and_back_is_the_offset() -> None:
    found = calibrated(0.003)
    assert (found.first_ns, found.told_first_ns, found.gap_ns) == (50 * MS, 50 * MS, 10 * MS)
    assert (found.ttft.n, found.ttft.median_ns, found.ttft.p99_ns, found.ttft.jitter_ns) == (100, 6 * MS, 6 * MS, 0)
    assert (found.gap.n, found.gap.median_ns, found.gap.max_ns) == (700, 0, 0)
    assert found.num_failed == 0
    assert found.loop.longest_block_ns == 0


def test_a_new_connection_is_in_the_lag_and_not_in_the_offset() -> None:
    # asks overlap, so that connections are opened while it runs
    assert calibrated(0.003).send_lag_p99_ns == 3 * MS


def test_a_server_that_answers_nothing_is_an_error_in_one_line() -> None:
    with pytest.raises(ConfigError, match="closed_before_headers"):
        calibrated(0.0, bad=True)
