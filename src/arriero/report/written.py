"""Written: numbers as text, one way for each unit; undefined is a dash."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Unit(StrEnum):
    """What a value counts, and in what it is kept."""

    COUNT = "count"
    NUMBER = "number"
    SHARE = "share"  # 0 to 1
    RATE = "per_s"
    TIME = "us"  # short: shown in milliseconds
    SPAN = "span_us"  # long: shown in seconds


UNDEFINED: Final = "–"  # noqa: RUF001 - as wide as a digit

_FORMS: Final[Mapping[Unit, Callable[[float], str]]] = MappingProxyType({
    Unit.COUNT: lambda value: f"{value:,.0f}",
    Unit.NUMBER: lambda value: f"{value:,.2f}",
    Unit.SHARE: lambda value: f"{100 * value:.1f} %",
    Unit.RATE: lambda value: f"{value:,.2f}",
    Unit.TIME: lambda value: f"{value / 1e3:,.2f}" if abs(value) >= 1e4 else f"{value / 1e3:.3f}",
    Unit.SPAN: lambda value: f"{value / 1e6:,.3f}",
})
UNIT_WORDS: Final = MappingProxyType({
    Unit.COUNT: "", Unit.NUMBER: "", Unit.SHARE: "", Unit.RATE: "1/s", Unit.TIME: "ms", Unit.SPAN: "s",
})  # fmt: skip


def written(value: float | None, unit: Unit) -> str:
    """The number without its unit, which stands in the heading; shares carry their sign."""
    return UNDEFINED if value is None else _FORMS[unit](value)


def labelled(label: str, unit: Unit) -> str:
    """A heading with the unit."""
    word = UNIT_WORDS[unit]
    return f"{label} ({word})" if word and not label.endswith("/s") else label


def ratio(value: float | None, base: float | None) -> str:
    """How many times the base; empty where there is no ratio."""
    return "" if value is None or not base else f"{value / base:.2f}×"  # noqa: RUF001 - the sign of multiplication


def significant(value: float) -> str:
    """At least four digits of a value of any size; a large one is whole, and never has an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
