"""Which of the two formats of the load generator a file has, and what is in it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.core.errors import DataError
from arriero.record.bench_compare import SCHEMA as COMPARE_SCHEMA
from arriero.record.bench_compare import CompareResult, read_comparison
from arriero.record.bench_result import SCHEMA as RESULT_SCHEMA
from arriero.record.bench_result import BenchResult, read_result
from arriero.record.sim_file import file_sha256

_REMEDY: Final = "name a result of `arriero bench run` or `arriero bench compare`"


class BenchFiles(NamedTuple):
    """What was read: path, hash of the file, contents."""

    results: list[tuple[Path, str, BenchResult]]
    comparisons: list[tuple[Path, str, CompareResult]]


class _Kind(msgspec.Struct):
    schema_version: str


_KIND: Final = msgspec.json.Decoder(_Kind)


def read_bench(paths: Iterable[Path]) -> BenchFiles:
    """Read and check every file.

    Raises:
        DataError: a file is of neither format, or breaks its own.
    """
    found = BenchFiles([], [])
    for path in paths:
        schema = _schema(path)
        if schema == RESULT_SCHEMA:
            found.results.append((path, file_sha256(path), read_result(path)))
        elif schema == COMPARE_SCHEMA:
            found.comparisons.append((path, file_sha256(path), read_comparison(path)))
        else:
            raise DataError(f"its format is {schema!a}, which is no result of a load test; {_REMEDY}", file=str(path))
    return found


def _schema(path: Path) -> str:
    try:
        return _KIND.decode(path.read_bytes()).schema_version
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; {_REMEDY}", file=str(path)) from None
    except (msgspec.DecodeError, RecursionError):
        raise DataError(f"no result of a load test; {_REMEDY}", file=str(path)) from None
