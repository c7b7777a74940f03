"""Numbers on the command line of `arriero sim`."""

import argparse
import math


def positive(text: str) -> int:
    """A whole number from 1 on.

    Raises:
        ArgumentTypeError: it is none.
    """
    return _whole(text, 1)


def count(text: str) -> int:
    """A whole number from 0 on.

    Raises:
        ArgumentTypeError: it is none.
    """
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text} is no whole number from {least} on")
    return int(text)


def amount(text: str) -> float:
    """A finite number from 0 on.

    Raises:
        ArgumentTypeError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text} is no number from 0 on")
    return value
