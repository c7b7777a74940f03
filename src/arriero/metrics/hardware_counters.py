"""What follows from counters of one whole invocation: instructions per cycle, miss rates, instructions per token.

Nothing here is known of one phase: a counter of a process that prefills and decodes holds both, and the start of the
program as well. Each figure is a number, or None with the reason.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Figure(NamedTuple):
    """A number, or why there is none."""

    value: float | None
    reason: str | None = None


class Ratio(NamedTuple):
    """How a figure is made: one counter over another."""

    name: str
    over: str  # the counter above the line
    under: str  # the counter below it


RATIOS: Final = (
    Ratio("instructions per cycle", "instructions", "cycles"),
    Ratio("branch-miss rate", "branch-misses", "branches"),
    Ratio("cache-miss rate", "cache-misses", "cache-references"),
)
PER_TOKEN: Final = ("instructions", "cycles", "task-clock")
"""Counters that are also shown for each token of the invocation."""


def quotient(counters: Mapping[str, Figure], ratio: Ratio) -> Figure:
    """One counter over another of the same invocation."""
    above, below = (counters.get(name, Figure(None, "not asked for")) for name in (ratio.over, ratio.under))
    for name, figure in ((ratio.over, above), (ratio.under, below)):
        if figure.value is None:
            return Figure(None, f"{name}: {figure.reason}")
    assert above.value is not None
    assert below.value is not None
    return Figure(None, f"{ratio.under} is 0") if below.value == 0 else Figure(above.value / below.value)


def per_token(figure: Figure, num_tokens: int | None) -> Figure:
    """A counter for each token of prompt and answer, whole invocation: it cannot tell prefill from decode."""
    if figure.value is None:
        return figure
    if not num_tokens:
        return Figure(None, "the program's number of tokens is not known")
    return Figure(figure.value / num_tokens)


def median_figure(figures: Sequence[Figure]) -> Figure:
    """The median over repetitions of those that have a value; the first reason where none has."""
    values = [each.value for each in figures if each.value is not None]
    if not values:
        reasons = [each.reason for each in figures if each.reason]
        return Figure(None, reasons[0] if reasons else "no repetition succeeded")
    return Figure(statistics.median(values))
