"""Memory and CPU time of a process group are the sum over its living members."""

import os
from pathlib import Path

import pytest

from arriero.bench.servers_usage import Usage, usage_of

TICKS = os.sysconf("SC_CLK_TCK")


def process(proc: Path, pid: int, *, group: int, name: str = "x", state: str = "S", memory: bool = True) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    fields = [state, "1", str(group), *("0",) * 8, str(3 * TICKS), str(TICKS), "0"]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    if memory:
        (folder / "status").write_text("Name:\tx\nVmHWM:\t  20 kB\nVmRSS:\t  10 kB\n")


def test_the_members_are_added_up(tmp_path: Path) -> None:
    process(tmp_path, 10, group=10)
    process(tmp_path, 11, group=10, name="a (strange) name)")
    process(tmp_path, 12, group=12)
    (tmp_path / "self").mkdir()
    assert usage_of(10, tmp_path) == Usage(2 * 10 * 1024, 2 * 20 * 1024, 8.0)


def test_one_that_is_over_and_not_yet_looked_after_counts_no_more(tmp_path: Path) -> None:
    process(tmp_path, 10, group=10, state="Z")
    assert usage_of(10, tmp_path) is None


def test_one_that_ends_while_it_is_read_has_no_memory(tmp_path: Path) -> None:
    process(tmp_path, 10, group=10, memory=False)
    assert usage_of(10, tmp_path) == Usage(0, 0, 4.0)


@pytest.mark.parametrize("proc", ["nowhere", "empty"])
def test_where_the_system_does_not_say_it_is_unknown(tmp_path: Path, proc: str) -> None:
    (tmp_path / "empty").mkdir()
    assert usage_of(10, tmp_path / proc) is None
