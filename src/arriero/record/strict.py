"""JSON and TOML of our own formats, typed and without anything left over; one line of complaint with the remedy."""

import json
import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar, cast

import msgspec
from msgspec import Meta

from arriero.core.errors import DataError

T = TypeVar("T")
COUNT_MAX: Final = 2**63 - 1
"""Times and counts are signed 64-bit numbers."""

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Positive = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
Name = Annotated[str, Meta(min_length=1)]
Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]

_PLACE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<field>.*)`)?", re.DOTALL)
_NAMED: Final = re.compile(r"(?P<problem>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)


def read_table(path: Path) -> dict[str, Any]:
    """The table in a file: TOML if its name ends so, else JSON.

    Raises:
        DataError: it cannot be read or holds no table.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; name a file that can be read", file=str(path)) from None
    except UnicodeDecodeError:
        raise DataError("not UTF-8; save the file as UTF-8", file=str(path)) from None
    if path.suffix.lower() == ".toml":
        return _parse_toml(text, str(path))
    return parse_object(text, file=str(path))


def parse_object(text: str | bytes, *, file: str, line: int | None = None) -> dict[str, Any]:
    """One JSON object in which no name stands twice.

    Raises:
        DataError: it is none.
    """
    place = "" if line is None else f"line {line}: "
    try:
        values: object = json.loads(text, object_pairs_hook=_without_twins, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if line is None else f"column {error.colno}"
        message = f"{place}malformed JSON ({where}: {error.msg.lower()}); mend it"
        raise DataError(message, file=file, line=line or error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}malformed JSON ({_one_line(error)}); mend it", file=file, line=line) from None
    if not isinstance(values, dict):
        raise DataError(f"{place}is no JSON object; write one", file=file, line=line)
    return cast("dict[str, Any]", values)


def convert(values: object, kind: type[T], *, file: str, line: int | None = None, below: str = "") -> T:
    """The values as a msgspec struct.

    Raises:
        DataError: a field is missing, unknown, of another type or out of range.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise refusal(str(error), kind, file=file, line=line, below=below) from None
    except (OverflowError, RecursionError):
        message = "a number is too large or the nesting too deep; use 64-bit integers"
        raise DataError(message, file=file, line=line) from None


def refusal(reason: str, kind: object, *, file: str, line: int | None = None, below: str = "") -> DataError:
    """A decoder's complaint in our own form: line, field, what is wrong, remedy.

    `below` is the field in which the values stand.
    """
    match = _PLACE.fullmatch(reason)
    assert match is not None, "every text has this form"
    what = match["what"]
    outer = ".".join(each for each in (below, match["field"]) if each)
    remedy = "mend the value"
    named = _NAMED.search(what)
    if named is not None:
        outer = ".".join(each for each in (outer, named["name"]) if each)
        is_unknown = named["problem"].startswith("contains")
        what = "unknown field" if is_unknown else "missing"
        known = getattr(kind, "__struct_fields__", ())
        close = get_close_matches(named["name"], known, n=1)
        remedy = (f"did you mean {close[0]}?" if close else "take it out") if is_unknown else "give it"
    what = what[:1].lower() + what[1:]
    place = ": ".join(each for each in ("" if line is None else f"line {line}", outer) if each)
    return DataError(
        f"{place}: {what}; {remedy}" if place else f"{what}; {remedy}", file=file, line=line, field=outer or None
    )


def _parse_toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"malformed TOML ({_one_line(error)}); mend it or use JSON"
        raise DataError(message, file=file) from None


def _without_twins(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!a} is given twice in one object")
        found[name] = value
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
