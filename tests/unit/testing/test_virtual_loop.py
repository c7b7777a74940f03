import asyncio
from time import perf_counter

import pytest

from arriero.testing.virtual_loop import VirtualLoop, run_virtual, virtual_pace

HOUR = 3_600_000_000_000


def test_an_hour_takes_no_time_and_every_nanosecond_is_hit() -> None:
    async def main() -> list[int]:
        pace = virtual_pace()
        seen = []
        for at in (5, 1_000_000_007, HOUR, HOUR + 1, 48 * HOUR + 3):
            await pace.sleep_until(at)
            seen.append(pace.clock() - at)
        await pace.sleep_until(1)
        return seen

    began_at = perf_counter()
    assert run_virtual(main()) == [0, 0, 0, 0, 0]
    assert perf_counter() - began_at < 5


def test_timers_of_several_tasks_come_in_order() -> None:
    seen: list[int] = []

    async def sleeper(seconds: int) -> None:
        await asyncio.sleep(seconds)
        seen.append(seconds)

    async def main() -> None:
        await asyncio.gather(*(sleeper(seconds) for seconds in (30, 10, 20, 10)))

    run_virtual(main())
    assert seen == [10, 10, 20, 30]


def test_a_timeout_ends_a_wait_for_nothing() -> None:
    async def main() -> None:
        async with asyncio.timeout(5):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run_virtual(main())


def test_a_deadlock_is_an_error_and_no_hang() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="no timer will bring"):
        run_virtual(main())


def test_nothing_outside_wakes_it() -> None:
    loop = VirtualLoop()
    loop._process_events([])
    loop._write_to_self()
    assert loop.time_ns() == 0
    loop.close()
