"""JSON and TOML settings, typed and without anything left over."""

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

import msgspec

from arriero.core.errors import BadWorkload

T = TypeVar("T")
_PLACE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<field>.*)`)?", re.DOTALL)


def read_settings(path: Path) -> dict[str, Any]:
    """The table in a file: TOML if its name ends so, else JSON.

    Raises:
        BadWorkload: it cannot be read or is no table.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise BadWorkload(f"{reason}; name a file that can be read", file=str(path)) from None
    except UnicodeDecodeError:
        raise BadWorkload("not UTF-8; save the file as UTF-8", file=str(path)) from None
    values = _parse_toml(text, str(path)) if path.suffix.lower() == ".toml" else _parse_json(text, str(path))
    if not isinstance(values, dict):
        raise BadWorkload("is no JSON object; write one", file=str(path))
    return cast("dict[str, Any]", values)


def convert(values: object, kind: type[T], *, file: str | None = None, below: str = "") -> T:
    """The settings as a typed value.

    Args:
        values: what JSON or TOML gave.
        kind: a msgspec struct.
        file: named in errors.
        below: the name of the field in which these settings stand.

    Raises:
        BadWorkload: a field is missing, unknown, of another type or out of range.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise complaint(error, file=file, below=below) from None
    except (OverflowError, RecursionError):
        raise BadWorkload("a number is too large or the nesting too deep; use 64-bit integers", file=file) from None


def complaint(error: msgspec.DecodeError, *, file: str | None = None, below: str = "") -> BadWorkload:
    """What msgspec has found, as one line with the field in front."""
    match = _PLACE.fullmatch(str(error))
    assert match is not None, "every text has this form"
    field = ".".join(each for each in (below, match["field"] or "") if each)
    what = match["what"][:1].lower() + match["what"][1:]
    message = f"{field}: {what}" if field else what
    return BadWorkload(f"{message}; the fields are in docs/workloads.md", file=file, field=field or None)


def _parse_toml(text: str, file: str) -> object:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadWorkload(f"malformed TOML ({_one_line(error)}); mend it or use JSON", file=file) from None


def _parse_json(text: str, file: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_without_twins, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        message = f"malformed JSON (line {error.lineno}, column {error.colno}: {error.msg.lower()}); mend it"
        raise BadWorkload(message, file=file, line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise BadWorkload(f"malformed JSON ({_one_line(error)}); mend it", file=file) from None


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
