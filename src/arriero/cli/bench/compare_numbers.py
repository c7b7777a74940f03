"""Values on the command line of `arriero bench compare`."""

import argparse
import math

from arriero.cli.simulation.numbers import positive


def counts(text: str) -> tuple[int, ...]:
    """Whole numbers from 1 on, between commas, each once.

    Raises:
        ArgumentTypeError: something else.
    """
    return tuple(dict.fromkeys(positive(each.strip()) for each in text.split(",")))


def words(text: str) -> tuple[str, ...]:
    """Words between commas, each once; none at all for an empty text."""
    return tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))


def share(text: str) -> float:
    """A share between 0 and 1: `2%` or `0.02`.

    Raises:
        ArgumentTypeError: something else.
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is no share between 0 and 1, such as 2% or 0.02")
    return value
