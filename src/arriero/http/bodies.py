"""JSON bytes → typed body, with one clear line about what is wrong with them."""

import codecs
import json
import math
import re
from typing import Final, Protocol, TypeVar, cast

import msgspec

from arriero.core.errors import InvalidRequest
from arriero.http.errors import MalformedBody

BodyT = TypeVar("BodyT")
BodyT_co = TypeVar("BodyT_co", covariant=True)


class Decodes(Protocol[BodyT_co]):
    """What `msgspec.json.Decoder` does; a strict one stands in for its lenient base."""

    def decode(self, buf: str, /) -> BodyT_co:
        """JSON → a typed body."""
        ...


_PLACE: Final = re.compile(r" - at (?:`key` in )?`\$\.?([^`]*)`$")
_MISSING: Final = re.compile(r"missing required field `([^`]+)`")
_UNKNOWN: Final = re.compile(r"unknown field `([^`]+)`")
_RANGE: Final = re.compile(r"Expected `\w+` (?:[<>]=?|of length|with|matching)|out of range")


def parse(body: bytes, decoder: Decodes[BodyT]) -> BodyT:
    """Decode and check types and ranges.

    Raises:
        MalformedBody: no UTF-8, no JSON, a missing field, or a wrong type.
        InvalidRequest: a value outside its range; both name the field.
    """
    try:
        return decoder.decode(str(body.removeprefix(codecs.BOM_UTF8), "utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedBody(f"the body is not valid UTF-8 (byte {error.start})") from None
    except msgspec.ValidationError as error:
        raise explain(str(error)) from None
    except RecursionError:
        raise MalformedBody("the body is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise _explain_syntax(body, error) from None


def explain(message: str, below: str = "") -> InvalidRequest:
    """What msgspec says is wrong, in our words: the field, then what it expects.

    Args:
        message: of its `ValidationError`.
        below: the field in which the value stands; empty for a whole body.
    """
    place = _PLACE.search(message)
    text = _PLACE.sub("", message)
    path = place.group(1) if place else ""
    if missing := _MISSING.search(text) or _UNKNOWN.search(text):
        path = f"{path}.{missing.group(1)}" if path else missing.group(1)
    field = ".".join(part for part in (below, path.replace("[...]", "")) if part) or None
    kind = InvalidRequest if _RANGE.search(text) else MalformedBody
    text = text[0].lower() + text[1:]
    return kind(f"{field}: {text}" if field else text, field=field)


def _explain_syntax(body: bytes, error: msgspec.DecodeError) -> InvalidRequest:
    """Python's own parser is more lenient: what it takes nevertheless can be named exactly."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return MalformedBody(f"the body is not valid JSON: {error}")
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    for name, each in fields.items():
        if isinstance(each, float) and not math.isfinite(each):
            return InvalidRequest(f"{name} must be a finite number", field=name)
    return MalformedBody("the body holds an unpaired surrogate or a number that JSON does not have")
