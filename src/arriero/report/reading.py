"""Which format a file has, and its runs."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from arriero.core.errors import DataError
from arriero.record.lab_run import RESULT_SCHEMA
from arriero.record.sim_rows import SCHEMA
from arriero.report.journal_view import read_journal_runs
from arriero.report.lab_view import read_lab_run
from arriero.report.own_run import read_own_run
from arriero.report.run_view import SEED, RunView

_LONGEST_FIRST_LINE: Final = 1 << 26
_READERS: Final = MappingProxyType[str, Callable[[Path], list[RunView]]]({
    SCHEMA: lambda path: [read_own_run(path)],
    RESULT_SCHEMA: lambda path: [read_lab_run(path)],
    "journal": read_journal_runs,
})


class _First(msgspec.Struct):
    """What the first line of every format tells; the other fields are not looked at."""

    schema_version: str | None = None
    kind: str | None = None


_FIRST: Final = msgspec.json.Decoder(_First)


def read_runs(paths: Iterable[Path]) -> list[RunView]:
    """The runs of all files, in their order, each with a name of its own.

    Raises:
        DataError: a file is no result of a simulation and no journal, or breaks its format.
    """
    found = [run for path in paths for run in _READERS[_format(path)](path)]
    return _named_apart(found)


def _format(path: Path) -> str:
    remedy = "name a result of `arriero sim run` or `arriero sim matrix`, or a journal of `arriero serve`"
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_FIRST_LINE)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; {remedy}", file=str(path)) from None
    try:
        first = _FIRST.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise DataError(f"no result of a simulation; {remedy}", file=str(path)) from None
    name = "journal" if first.kind == "start" else str(first.schema_version)
    if name not in _READERS:
        raise DataError(f"its format is {name!a}, which is no result of a simulation; {remedy}", file=str(path))
    return name


def _named_apart(runs: list[RunView]) -> list[RunView]:
    """Equal names get their seeds, or else the numbers of their places."""
    names = [run.name for run in runs]
    seeds = [f"{run.name}, seed {run.traits.get(SEED)}" for run in runs]
    return [
        run
        if names.count(run.name) == 1
        else replace(run, name=seed if seeds.count(seed) == 1 else f"{run.name} ({number})")
        for number, (run, seed) in enumerate(zip(runs, seeds, strict=True), start=1)
    ]
