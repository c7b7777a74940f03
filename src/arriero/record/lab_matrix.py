"""LabMatrix: a list of configurations that are run together, schema `serving-matrix-v1`."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from arriero.core.errors import ConfigError, DataError
from arriero.record.lab_config import is_portable
from arriero.record.strict import Name, Positive, convert, read_table

SCHEMA: Final = "serving-matrix-v1"
MOST_RUNS: Final = 20
"""How many runs one command starts without being told a higher number."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configurations that are looked at side by side, by their stems."""

    configs: Annotated[list[Name], Meta(min_length=1)]
    metrics: Annotated[list[Name], Meta(min_length=1)]


class LabMatrix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configurations by path, relative to the repository."""

    schema_version: Literal["serving-matrix-v1"]
    evidence_type: Literal["SIMULATED"]
    max_default_runs: Positive
    command_manifest: Name
    comparisons: dict[Name, Comparison]
    configs: Annotated[list[Name], Meta(min_length=1)]


def read_matrix(path: Path) -> LabMatrix:
    """Read a matrix; whether its configurations exist is for `locate` to say.

    Raises:
        DataError: names field and remedy.
    """
    file = str(path)
    matrix = convert(read_table(path), LabMatrix, file=file)

    def refuse(field: str, what: str) -> DataError:
        return DataError(f"{field}: {what}", file=file, field=field)

    if matrix.max_default_runs != len(matrix.configs):
        what = f"is {matrix.max_default_runs} for {len(matrix.configs)} configs; make them equal"
        raise refuse("max_default_runs", what)
    for each in (matrix.command_manifest, *matrix.configs):
        if not is_portable(each):
            raise refuse("configs", f"{each!r} leaves the repository; write a relative path without ..")
    stems = [stem(each) for each in matrix.configs]
    if twice := sorted({each for each in stems if stems.count(each) > 1}):
        raise refuse("configs", f"{twice[0]} stands there twice; give each file a name of its own")
    for name, comparison in matrix.comparisons.items():
        for each in comparison.configs:
            if each not in stems:
                raise refuse(f"comparisons.{name}.configs", f"{each} is not among the configs; take it out")
    return matrix


def stem(config: str) -> str:
    """The short name of a configuration."""
    return PurePosixPath(config).stem


def select(matrix: LabMatrix, only: Sequence[str], most_runs: int) -> list[str]:
    """The configurations to run, in the order of the matrix; all of them if `only` is empty.

    Raises:
        ConfigError: a name is not there, or they are more than `most_runs`.
    """
    stems = [stem(each) for each in matrix.configs]
    for each in only:
        if each not in stems:
            raise ConfigError(f"--only {each}: no such configuration; use {', '.join(stems)}")
    chosen = [config for config, name in zip(matrix.configs, stems, strict=True) if not only or name in only]
    if len(chosen) > most_runs:
        raise ConfigError(f"{len(chosen)} runs are more than {most_runs}; choose with --only or raise --max-runs")
    return chosen


def locate(paths: Iterable[str], root: Path, *, file: str) -> dict[str, Path]:
    """Where the configurations lie below a root: as written, or with some of their folders left out.

    Raises:
        DataError: one is not there, or leaves the root.
    """
    return {each: find_below(root, each, file=file, field="configs") for each in paths}


def find_below(root: Path, relative: str, *, file: str, field: str) -> Path:
    """A file below a root: at its path as written, or with some of the folders left out, the most complete first.

    Published paths are those of another repository, whose folders need not all be here.

    Raises:
        DataError: it is not there, or a link leads out of the root.
    """
    found = next((path for path in _candidates(root, PurePosixPath(relative)) if path.is_file()), None)
    if found is None:
        what = f"{field}: no file {relative} below {root}; name the folder with --root"
        raise DataError(what, file=file, field=field)
    if not found.resolve().is_relative_to(root.resolve()):
        raise DataError(f"{field}: {relative} leads out of {root}; keep it inside", file=file, field=field)
    return found


def _candidates(root: Path, relative: PurePosixPath) -> Iterator[Path]:
    *folders, name = relative.parts
    for length in range(len(folders), -1, -1):
        for kept in combinations(folders, length):
            yield root.joinpath(*kept, name)
