"""F3: a stall of the server is seen by every request that was due in it, and not by one that waited for all.

The real client, the real null server and the real loops, joined in memory, in virtual time: a minute in a moment.
"""

import asyncio
from typing import cast

from arriero.bench.ask import Ask
from arriero.bench.client import HttpTarget
from arriero.bench.loops import run_schedule
from arriero.bench.null_server import NullServer
from arriero.bench.null_server_options import NullOptions, Stall
from arriero.bench.schedule import Loop, Planned, seal
from arriero.metrics.client_latency import ttft
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_summary import summarise
from arriero.metrics.quantiles import nearest_rank
from arriero.testing.memory_network import MemoryNetwork
from arriero.testing.virtual_loop import VirtualLoop, run_virtual, virtual_pace

S = 1_000_000_000
MS = 1_000_000
RATE, SECONDS = 20, 60
STALLED = NullOptions(stall=Stall(at_s=20.0, for_s=5.0))


def lives_of(loop_kind: Loop, num_clients: int = 0) -> list[ClientLife]:
    """All requests, sent by plan or by clients that wait for their answers and then as long as the plan would."""

    async def main() -> list[ClientLife]:
        loop = cast("VirtualLoop", asyncio.get_running_loop())
        server = NullServer(STALLED, loop.time_ns)
        target = HttpTarget("http://null", clock=loop.time_ns, network=MemoryNetwork(server.connection))
        is_open = loop_kind is Loop.OPEN
        planned = [
            Planned(
                ask=Ask(request_id=f"r{number:04d}", prompt=(1,), max_tokens=20),
                at_ns=number * S // RATE if is_open else None,
                think_ns=0 if is_open else S // RATE * num_clients,
            )
            for number in range(RATE * SECONDS)
        ]
        starts = [client * S // RATE for client in range(num_clients)]
        try:
            came = await run_schedule(target, seal(loop_kind, planned, client_starts=starts), virtual_pace())
        finally:
            await target.close()
        return list(came.lives)

    return run_virtual(main())


def test_f3_a_hundred_requests_show_the_stall() -> None:
    lives = lives_of(Loop.OPEN)
    waits = sorted(ttft(life) or 0 for life in lives)
    stalled = [wait for wait in waits if wait > MS]
    assert len(lives) == 1200
    assert len(stalled) == 100
    assert (min(stalled), max(stalled)) == (50 * MS, 5 * S)
    assert nearest_rank(waits, 0.99) == 4400 * MS
    assert [life.sent_at for life in lives] == [life.intended_at for life in lives]


def test_f3_the_summary_says_so() -> None:
    summary = summarise(lives_of(Loop.OPEN))
    table = summary.latency.finished.ttft_ns
    assert table is not None
    assert (table.n, table.p50, table.p99, table.max) == (1200, 0, 4400 * MS, 5 * S)


def test_f3_clients_that_wait_hide_it() -> None:
    """What the open loop is for: the same server, and p99 says nothing of its stall."""
    lives = lives_of(Loop.CLOSED, num_clients=4)
    waits = sorted(ttft(life) or 0 for life in lives)
    assert sum(wait > MS for wait in waits) == 4
    assert nearest_rank(waits, 0.99) == 0
