"""What the parsers of other programs' output share: a complaint that names the line, and numbers that are numbers."""

import math
import re
from typing import Final

from arriero.core.errors import DataError

_WHOLE: Final = re.compile(r"\d{1,19}", re.ASCII)
_DECIMAL: Final = re.compile(r"\d{1,19}(?:\.\d{1,19})?(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_LONGEST_QUOTE: Final = 80


def bad_line(file: str, line: int, problem: str) -> DataError:
    """The error for one line of what a tool wrote."""
    message = f"line {line}: {problem}; is this the tool's own output, and a version that arriero knows?"
    return DataError(message, file=file, line=line)


def quoted(text: str) -> str:
    """A piece of output as it stands in a complaint: short, one line."""
    shown = " ".join(text.split())
    return repr(shown if len(shown) <= _LONGEST_QUOTE else f"{shown[:_LONGEST_QUOTE]}...")


def whole_number(text: str, *, file: str, line: int, what: str) -> int:
    """A count that fits 63 bits.

    Raises:
        DataError: it is none.
    """
    if not _WHOLE.fullmatch(text) or int(text) >= 2**63:
        raise bad_line(file, line, f"{what} {quoted(text)} is no whole number")
    return int(text)


def decimal_number(text: str, *, file: str, line: int, what: str) -> float:
    """A number that is neither negative nor infinite.

    Raises:
        DataError: it is none.
    """
    if not _DECIMAL.fullmatch(text) or not math.isfinite(value := float(text)):
        raise bad_line(file, line, f"{what} {quoted(text)} is no number")
    return value


def hexadecimal(text: str, *, file: str, line: int, what: str) -> int:
    """An address of up to 64 bits.

    Raises:
        DataError: it is none.
    """
    digits = text.removeprefix("0x")
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", digits, re.ASCII):
        raise bad_line(file, line, f"{what} {quoted(text)} is no address")
    return int(digits, 16)


def bounded(total: int, *, file: str, what: str) -> int:
    """A sum of counts that fits 63 bits, as a record holds it.

    Raises:
        DataError: it does not.
    """
    if total >= 2**63:
        raise DataError(f"{what} add up to more than there can be; is it the tool's own output?", file=file)
    return total
