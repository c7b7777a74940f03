"""A process that works through a matrix of the fake program, to be killed: `python killed_run.py FOLDER`."""

import sys
from pathlib import Path

from arriero.lab.matrix.session import SessionOptions, run_matrix
from arriero.testing.fake_bench import Mode
from tests.unit.lab.matrix.matrices import AROUND, cases, fake_plan, ignore

OPTIONS = SessionOptions(resume=True, repair=True)


def work(folder: Path) -> None:
    """Begin, or go on, until all is done."""
    folder.mkdir(exist_ok=True)
    plan = fake_plan(folder, {"p64-n8-t2": Mode.EXIT}, matrix=cases(32, 64))
    run_matrix(plan, folder / "run", AROUND, ignore, OPTIONS)


if __name__ == "__main__":
    work(Path(sys.argv[1]))
