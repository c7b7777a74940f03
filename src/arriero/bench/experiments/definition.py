"""Definition: the configuration file of an experiment, read strictly.

Keys of the struct stand at the top of the file. A table `quick` holds what the quick variant puts over them: tables are
merged, everything else is replaced.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

import msgspec

from arriero.core.errors import DataError
from arriero.record.strict import convert, read_table

QUICK: Final = "quick"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

C = TypeVar("C", bound=msgspec.Struct)


def read_definition(path: Path, kind: type[C], *, quick: bool = False, over: Mapping[str, Any] = NOTHING) -> C:
    """Read a configuration; both variants are checked, whichever is asked for.

    Args:
        path: the file.
        kind: its struct.
        quick: take the quick variant.
        over: values of the command line, put over both.

    Raises:
        DataError: it cannot be read, or a field is missing, unknown or out of range; or there is no quick variant.
    """
    table = read_table(path)
    smaller = table.pop(QUICK, None)
    config = convert(merged(table, over), kind, file=str(path))
    if smaller is None:
        if quick:
            raise DataError(f"{QUICK}: missing; give the table of values for --quick", file=str(path), field=QUICK)
        return config
    if not isinstance(smaller, dict):
        raise DataError(f"{QUICK}: is no table; write one", file=str(path), field=QUICK)
    table = merged(table, cast("dict[str, Any]", smaller))
    quick_config = convert(merged(table, over), kind, file=str(path))
    return quick_config if quick else config


def merged(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A table with another one put over it."""
    found = dict(table)
    for name, value in over.items():
        below = found.get(name)
        both = isinstance(below, dict) and isinstance(value, dict)
        found[name] = merged(cast("dict[str, Any]", below), cast("dict[str, Any]", value)) if both else value
    return found
