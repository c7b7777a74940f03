"""A soak from outside: which server it starts, what it says of a leg, and what a server that fails leaves behind."""

from itertools import pairwise
from pathlib import Path

from arriero.bench.soak import run
from arriero.bench.soak.run import line_of, run_soak
from arriero.bench.soak.state import SoakState, StateFile, read_state
from tests.unit.bench.soak.soaks import leg, reading, settings, state

MS = 1_000_000


def test_the_server_gets_its_target_only_where_there_is_one() -> None:
    pairs = dict(pairwise(run._words(settings(itl_target_ms=80, flags=("--policy", "fcfs")))))
    assert (pairs["--itl-target"], pairs["--policy"], pairs["--backlog"], pairs["--cache-ram"]) == (
        "80", "fcfs", "2", "64",
    )  # fmt: skip
    assert "--itl-target" not in run._words(settings(itl_target_ms=0))


def test_a_leg_is_told_in_one_line() -> None:
    assert line_of(state(leg(0), leg(1)), leg(0)) == "leg 1 of 2: 16 requests, 10 whole, 100 MiB"
    bad = leg(1, num_surprises=3, gap_p99_ns=90.0 * MS, after=reading(resident_bytes=None))
    assert line_of(state(leg(0), leg(1)), bad) == "leg 2 of 2: 16 requests, 10 whole, ITL p99 90 ms, 3 surprises"


async def test_a_server_that_does_not_start_is_written_down(tmp_path: Path) -> None:
    file = StateFile(tmp_path, SoakState(settings=settings(flags=("--no-such-flag",))))
    file.put(file.state)
    told: list[str] = []
    await run_soak(file, tmp_path, told.append)
    (failure,) = file.state.failures
    assert "ended with status 2 before it answered" in failure
    assert str(tmp_path) not in failure
    assert (file.state.legs, file.state.servers, told) == ((), (), [])
    assert read_state(tmp_path) == file.state


async def test_a_soak_that_is_over_starts_nothing(tmp_path: Path) -> None:
    over = state(leg(0))
    await run_soak(StateFile(tmp_path, over), tmp_path, lambda _: None)
    assert read_state(tmp_path) is None
