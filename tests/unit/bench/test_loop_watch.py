import asyncio
import gc

from arriero.bench.loop_watch import LoopReport, LoopWatch, quiet_collector
from arriero.testing.virtual_loop import VirtualLoop, run_virtual
from tests.unit.bench.client_rig import MS, S


def watched(*blocks: tuple[float, float], for_s: float = 1.0) -> LoopReport:
    """A second of watching in which nothing runs for some time, from a moment on."""

    async def main() -> LoopReport:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with LoopWatch(loop.time_ns) as watch:
            for at_s, block_s in blocks:
                loop.call_at(at_s, loop.jump, block_s)
            await asyncio.sleep(for_s)
        return watch.report()

    return run_virtual(main())


def test_a_free_loop_was_never_blocked() -> None:
    report = watched()
    assert (report.longest_block_ns, report.num_blocks, report.blocked_at) == (0, 0, None)
    assert report.num_ticks >= 199


def test_a_block_is_seen_to_within_the_interval() -> None:
    report = watched((0.5021, 0.15))
    assert 145 * MS <= report.longest_block_ns <= 150 * MS
    assert report.num_blocks == 1
    assert report.blocked_at is not None
    assert 650 * MS <= report.blocked_at <= 655 * MS


def test_only_blocks_above_the_limit_are_counted() -> None:
    report = watched((0.1, 0.05), (0.3, 0.12), (0.6, 0.3))
    assert report.num_blocks == 2
    assert 295 * MS <= report.longest_block_ns <= 300 * MS


def test_a_block_that_lasts_until_the_end_is_seen() -> None:
    assert watched((0.999, 2.0)).longest_block_ns > 1.9 * S


def test_collections_are_timed_and_watching_ends() -> None:
    async def main() -> tuple[int, int]:
        async with LoopWatch() as watch:
            gc.collect()
            during = watch.report()
        gc.collect()
        assert during.longest_collection_ns > 0
        return during.num_collections, watch.report().num_collections

    during, after = asyncio.run(main())
    assert during >= 1
    assert after == during


def test_the_collector_is_quiet_and_comes_back() -> None:
    assert gc.isenabled()
    with quiet_collector():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        with quiet_collector():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
