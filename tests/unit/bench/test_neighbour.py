"""A busy neighbour takes a CPU while it is there, and is gone when whoever started it is."""

import subprocess
import sys
from pathlib import Path

import pytest

from arriero.bench.neighbour import BusyNeighbour, Visit
from tests.unit.bench.servers_rig import is_gone, witnessed

# Starts a neighbour, says which process it is, and waits for its own end.
STARTER = """
import socket, sys
from arriero.bench import neighbour
held = "import socket; held = socket.create_connection(('127.0.0.1', %d))" % int(sys.argv[1])
neighbour._PROGRAM = held + neighbour._PROGRAM
busy = neighbour.BusyNeighbour()
busy.start()
sys.stdin.read()
"""


def test_cpus_are_what_it_had_over_how_long_it_was_there() -> None:
    assert Visit(2.0, 1.0).cores == 0.5
    assert Visit(2.0, None).cores is None
    assert Visit(0.0, 1.0).cores is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_it_is_there_between_start_and_stop() -> None:
    neighbour = BusyNeighbour()
    assert neighbour.stop() is None
    neighbour.start()
    neighbour.start()
    visit = neighbour.stop()
    assert visit is not None
    assert visit.cpu_s is not None
    assert 0 <= visit.cpu_s <= visit.seconds + 0.1
    assert neighbour.stop() is None


def test_it_is_gone_when_whoever_started_it_is_killed(root: Path) -> None:
    with witnessed() as witness:
        command = [sys.executable, "-c", STARTER, str(witness.port)]
        with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE) as owner:
            held = witness.meet()
            owner.kill()
            assert is_gone(held)
