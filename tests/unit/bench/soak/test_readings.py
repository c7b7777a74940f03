"""What an idle server may still have, and what is waited for."""

import os
import sys
from pathlib import Path

import pytest

from arriero.bench.soak.readings import Expected, num_entries
from arriero.bench.soak.records import Reading
from tests.unit.bench.soak.soaks import reading


@pytest.mark.parametrize(
    ("found", "expected", "holds"),
    [
        (reading(), Expected(), True),
        (reading(), Expected(files=20, tasks=5), True),
        (reading(files=21), Expected(files=20, tasks=5), False),
        (reading(tasks=6), Expected(files=20, tasks=5), False),
        (reading(files=19, tasks=4), Expected(files=20, tasks=5), True),
        (reading(files=None, tasks=None), Expected(files=20, tasks=5), True),
        (reading(running=1), Expected(), False),
        (reading(in_flight=1), Expected(), False),
        (reading(swapped=1), Expected(), False),
        (reading(sequences_held=1), Expected(), False),
        (reading(sequences_quarantined=1), Expected(), True),  # no wait brings it back
    ],
)
def test_a_server_is_waited_for_until_it_holds_no_more_than_before(
    found: Reading,
    expected: Expected,
    holds: bool,  # noqa: FBT001 - a table
) -> None:
    assert expected.holds(found) is holds


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_open_files_and_threads_of_a_process_are_counted(tmp_path: Path) -> None:
    before = num_entries(os.getpid(), "fd")
    with (tmp_path / "held").open("w"):
        after = num_entries(os.getpid(), "fd")
    assert before is not None
    assert after == before + 1
    assert (num_entries(os.getpid(), "task") or 0) >= 1


def test_a_process_that_is_gone_has_nothing_to_count(tmp_path: Path) -> None:
    assert num_entries(1, "fd", proc=tmp_path) is None
