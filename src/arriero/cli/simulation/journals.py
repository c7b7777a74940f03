"""`--journal FILE`: the journal of a simulated run, beside its result."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from arriero.cli.simulation.output import new_file, require_absent
from arriero.cli.sources import LineParser
from arriero.core.errors import ConfigError
from arriero.sim.journal import SimulationJournal


def add_journal(parser: LineParser) -> None:
    """Give the parser `--journal`."""
    says = "write every decision there, for `arriero sim replay` and `arriero workload import journal`"
    parser.add_argument("--journal", metavar="FILE", help=says)


def check_journal(path: Path | None, out: Path | None, *, force: bool) -> None:
    """Refuse before a run what would be refused at its end.

    Raises:
        ConfigError: the journal has no place of its own, or exists already.
    """
    if path is None:
        return
    if out is not None and os.path.realpath(path) == os.path.realpath(out):
        raise ConfigError(f"--journal {path}: is the result's own name; give each file its own")
    require_absent([path], force=force)


@contextmanager
def opened_journal(path: Path | None, *, force: bool) -> Generator[SimulationJournal | None]:
    """A journal that appears at the end of the block, whole; None without a path.

    Raises:
        ConfigError: it cannot be written.
    """
    if path is None:
        yield None
        return
    with new_file(path, force=force) as file:
        yield SimulationJournal(file.write)
