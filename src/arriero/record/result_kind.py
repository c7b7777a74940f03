"""Which of the two result formats a file is of; its first line says it."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from arriero.core.errors import ConfigError, DataError
from arriero.record.lab_run import RESULT_SCHEMA
from arriero.record.sim_rows import SCHEMA


class ResultKind(StrEnum):
    """Formats, by the schema of their run row."""

    OWN = SCHEMA
    LAB = RESULT_SCHEMA


_WORDS: Final = {ResultKind.OWN: "arriero's own format", ResultKind.LAB: "the format of serving-lab"}


class _First(msgspec.Struct):
    schema_version: str


_FIRST: Final = msgspec.json.Decoder(_First)


def kind_of(path: Path) -> ResultKind:
    """The format of a file; nothing but its first line is looked at.

    Raises:
        DataError: it cannot be read, or is no result.
    """
    try:
        with path.open("rb") as file:
            line = file.readline()
        return ResultKind(_FIRST.decode(line).schema_version)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; name a result file that can be read", file=str(path)) from None
    except (msgspec.DecodeError, RecursionError, ValueError):
        known = " or ".join(ResultKind)
        message = f"line 1: schema_version: is not {known}; name a result of `arriero sim run`"
        raise DataError(message, file=str(path), line=1, field="schema_version") from None


def one_kind(paths: Sequence[Path]) -> ResultKind:
    """The format that all files have.

    Raises:
        ConfigError: they are of both. DataError: see `kind_of`.
    """
    kinds = [kind_of(path) for path in paths]
    for path, kind in zip(paths, kinds, strict=True):
        if kind is not kinds[0]:
            message = (
                f"{paths[0]} is of {_WORDS[kinds[0]]} and {path} of {_WORDS[kind]}, whose metrics differ; "
                "give files of one format"
            )
            raise ConfigError(message)
    return kinds[0]
