"""The text of result files of the load generator: one layout for writing, one strict way of reading.

One JSON object, fields in the order of their declaration, keys of tables ascending, no spaces. Each field of the object
has a line of its own, and so has each member of the long lists in `SPREAD`, wherever they stand. The same values give
the same bytes; what was read and is written again, too.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from arriero.core.errors import ConfigError, DataError
from arriero.record.strict import convert, parse_object

SPREAD: Final = frozenset({"points", "cells", "rounds", "lives", "searches", "trials"})
"""Lists whose members have lines of their own."""

S = TypeVar("S", bound=msgspec.Struct)


def encode(result: msgspec.Struct, *, file: str) -> bytes:
    """The bytes of a result.

    Raises:
        DataError: a value has another type than its field says, or is a number that JSON does not have.
    """
    values = _plain(result)
    _refuse_infinite(values, "", file)
    kept = _plain(convert(values, type(result), file=file))  # whole floats that came as integers become floats
    return b"{\n" + b",\n".join(_field(name, value) for name, value in kept.items()) + b"\n}\n"


def decode(text: bytes, kind: type[S], schema: str, *, file: str) -> S:
    """A result from its bytes.

    Raises:
        DataError: cut off, no JSON object, of another schema, or with a field that is unknown, missing or impossible.
    """
    if not text.strip():
        raise DataError("the file is empty; name a result file", file=file)
    if not text.rstrip().endswith(b"}"):
        raise DataError("the file is cut off: its last line is not the closing bracket; run again", file=file)
    values = parse_object(text, file=file)
    found = values.get("schema_version")
    if found != schema:
        what = f"schema_version: {found!a} is not {schema}; name a file of that kind, or read it with its own version"
        raise DataError(what, file=file, field="schema_version")
    result = convert(values, kind, file=file)
    left = next(_left_over(values, _plain(result), ""), None)
    if left is not None:
        raise DataError(f"{left}: unknown field; take it out", file=file, field=left)
    return result


def read(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; name a result file that can be read", file=str(path)) from None


def put_in_place(path: Path, text: bytes) -> None:
    """Write a file in one move: nobody ever reads half of it, and an earlier one stays whole until then.

    Raises:
        ConfigError: it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        reason = (error.strerror or "unknown error").lower()
        raise ConfigError(f"{path}: cannot be written ({reason}); name a file in a folder that exists") from error


def _plain(result: msgspec.Struct) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.to_builtins(result, order="deterministic"))


def _field(name: str, value: object) -> bytes:
    return msgspec.json.encode(name) + b":" + _value(name, value)


def _value(name: str, value: object) -> bytes:
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return b"{" + b",".join(_field(key, inner) for key, inner in table.items()) + b"}"
    if isinstance(value, list | tuple) and value and name in SPREAD:
        members = cast("Sequence[object]", value)
        return b"[\n" + b",\n".join(_value("", member) for member in members) + b"\n]"
    return msgspec.json.encode(value)


def _refuse_infinite(value: object, place: str, file: str) -> None:
    """JSON has no word for infinite and undefined numbers, and the encoder would write null for them."""
    match value:
        case float() if not math.isfinite(value):
            raise DataError(f"{place}: {value} is no number of a file; give null and a reason", file=file, field=place)
        case dict():
            for name, inner in cast("dict[str, object]", value).items():
                _refuse_infinite(inner, f"{place}.{name}" if place else name, file)
        case list() | tuple() if not place.endswith(".lives"):  # moments are whole numbers
            for index, inner in enumerate(cast("Sequence[object]", value)):
                _refuse_infinite(inner, f"{place}[{index}]", file)
        case _:
            return


def _left_over(given: object, kept: object, place: str) -> Iterator[str]:
    """Fields that were given and are not kept, which plain values inside the structs drop without a word."""
    if isinstance(given, dict) and isinstance(kept, Mapping):
        for name, inner in cast("dict[str, object]", given).items():
            inside = f"{place}.{name}" if place else name
            if name not in kept:
                yield inside
            else:
                yield from _left_over(inner, cast("Mapping[str, object]", kept)[name], inside)
    elif isinstance(given, list) and isinstance(kept, list | tuple):
        both = zip(cast("list[object]", given), cast("Sequence[object]", kept), strict=True)
        for index, (one, other) in enumerate(both):
            if isinstance(one, str | int | float):
                return  # a list of plain values
            yield from _left_over(one, other, f"{place}[{index}]")
