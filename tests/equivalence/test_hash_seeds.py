import os
import subprocess
import sys
from pathlib import Path


def test_the_same_runs_under_two_hash_seeds_print_the_same_bytes(root: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.equivalence.dump_events"],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
        )
        for seed in ("1", "271828")
    ]
    first, second = (program.communicate()[0] for program in programs)
    assert [program.returncode for program in programs] == [0, 0]
    assert first == second
    for word in (b"Preempted(", b"CancelObserved(", b"TokenEmitted(", b"NoRoom(", b"Failed("):
        assert word in first, "the runs are too tame to show anything"
