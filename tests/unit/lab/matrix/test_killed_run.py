"""A run that is killed again and again comes to the same table as one that is left alone."""

import csv
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from arriero.lab.matrix.normalize import write_normalized
from arriero.record.cpu_lab.matrix import MatrixRecord
from arriero.record.cpu_lab.run_log import LINES, read_run
from tests.unit.lab.matrix.killed_run import work

MEASURED_TIMES = ("timestamp_utc", "elapsed_seconds", "peak_rss_kib", "memory_measurement_source")
KILLS = 4


def start(root: Path, folder: Path) -> "subprocess.Popen[bytes]":
    code = "import sys; from pathlib import Path; from tests.unit.lab.matrix.killed_run import work; "
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    return subprocess.Popen(
        [sys.executable, "-c", f"{code}print(flush=True); work(Path(sys.argv[1]))", str(folder)],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
    )


def rows(folder: Path) -> list[dict[str, str]]:
    """The table but for what a clock or the kernel measured."""
    csv_path, _ = write_normalized(folder / "run", partial=False).paths
    with csv_path.open(encoding="utf-8", newline="") as file:
        return [
            {name: value for name, value in row.items() if name not in MEASURED_TIMES} for row in csv.DictReader(file)
        ]


def test_nothing_is_lost_and_nothing_is_done_twice_wherever_a_run_is_killed(tmp_path: Path, root: Path) -> None:
    chance = random.Random(8081)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    work(whole)
    sizes: list[int] = []
    for _ in range(KILLS):
        child = start(root, killed)
        assert child.stdout is not None
        child.stdout.readline()  # it has loaded everything, and works from now on
        try:
            child.wait(timeout=chance.uniform(0.01, 0.25))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        path = killed / "run" / LINES
        sizes.append(path.stat().st_size if path.exists() else 0)
    assert sizes == sorted(sizes), "what was on disk stays there"
    assert sizes[0] < sizes[-1], "some of the kills came in the middle"
    work(killed)
    both = [read_run(folder / "run", MatrixRecord).records for folder in (killed, whole)]
    ids = [[record.invocation_id for record in records] for records in both]
    assert ids[0] == ids[1]
    assert max(Counter(ids[0]).values()) == 1
    assert [record.status for record in both[0]] == [record.status for record in both[1]]
    assert rows(killed) == rows(whole)
    assert len(rows(whole)) == 6
