"""Values on the command line of `arriero bench run`: rates, ramps, warm-ups, fields."""

import argparse
import math
import re
from typing import Any, Final, NamedTuple

import msgspec

from arriero.bench.schedule_arrivals import Ramp
from arriero.cli.simulation.numbers import positive
from arriero.workload.settings import Vocabulary

MOST_PER_S: Final = 1e6
_TIME: Final = re.compile(r"(?P<value>\d{1,9}(\.\d{1,9})?)(?P<unit>ms|s|m|h)?", re.ASCII)
_UNITS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class WarmUp(NamedTuple):
    """What is left out at the beginning: a number of requests, or a time."""

    requests: int = 0
    ns: int = 0


def seconds(text: str) -> float:
    """A time from 0 on: `30`, `30s`, `500ms`, `5m`.

    Raises:
        ArgumentTypeError: it is none.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is no time; write 30s, 500ms or 5m")
    return float(match["value"]) * _UNITS[match["unit"]]


def nanoseconds(text: str) -> int:
    """A time from 0 on, in whole nanoseconds.

    Raises:
        ArgumentTypeError: it is none.
    """
    return round(seconds(text) * 1e9)


def milliseconds(text: str) -> int:
    """A bound from 0 on, given in milliseconds unless it names its unit; in whole nanoseconds.

    Raises:
        ArgumentTypeError: it is none.
    """
    return nanoseconds(text if text[-1:].isalpha() else f"{text}ms")


def rate(text: str) -> float:
    """So many a second, above 0.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MOST_PER_S:
        raise argparse.ArgumentTypeError(f"{text} is no rate; use a number above 0, at most {MOST_PER_S:,.0f}")
    return value


def rates(text: str) -> tuple[float, ...]:
    """Rates between commas, each once.

    Raises:
        ArgumentTypeError: something else.
    """
    return tuple(dict.fromkeys(rate(each.strip()) for each in text.split(",")))


def clients(text: str) -> tuple[int, ...]:
    """Numbers of clients between commas, each once.

    Raises:
        ArgumentTypeError: something else.
    """
    return tuple(dict.fromkeys(positive(each.strip()) for each in text.split(",")))


def ramp(text: str) -> Ramp:
    """`FROM:TO:SECONDS`.

    Raises:
        ArgumentTypeError: something else.
    """
    parts = text.split(":")
    if len(parts) != 3:
        raise argparse.ArgumentTypeError(f"{text} is no ramp; write FROM:TO:TIME such as 1:16:60s")
    start = 0.0 if parts[0] in {"0", "0.0"} else rate(parts[0])
    return Ramp(start=start, end=rate(parts[1]), seconds=seconds(parts[2]))


def warm_up(text: str) -> WarmUp:
    """A number of requests, or a time with its unit.

    Raises:
        ArgumentTypeError: it is neither.
    """
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return WarmUp(requests=int(text))
    if not text[-1:].isalpha():
        raise argparse.ArgumentTypeError(f"{text} is no warm-up; write 20 for requests or 5s for a time")
    return WarmUp(ns=nanoseconds(text))


def share(text: str) -> float:
    """A share from 0 to 1.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share; use a number from 0 to 1")
    return value


def named_value(text: str) -> tuple[str, Any]:
    """`NAME=JSON`, a field of the body; what is no JSON is taken as a text.

    Raises:
        ArgumentTypeError: there is no name.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text} names no field; write NAME=VALUE")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


def header(text: str) -> tuple[str, str]:
    """`NAME: VALUE`.

    Raises:
        ArgumentTypeError: there is no name.
    """
    name, colon, value = text.partition(":")
    if not name.strip() or not colon or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!a} is no header; write 'Name: value'")
    return name.strip(), value.strip()


def vocabulary(text: str) -> Vocabulary:
    """`FIRST:SIZE`.

    Raises:
        ArgumentTypeError: something else.
    """
    first, colon, size = text.partition(":")
    if not colon or not first.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is no range of tokens; write FIRST:SIZE such as 1000:30000")
    try:
        return msgspec.convert({"first_token": int(first), "size": positive(size)}, Vocabulary)
    except msgspec.ValidationError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None
