"""Findings: what one gate saw, and the first thing that was not as promised."""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

Count: TypeAlias = int | float | str | list[int] | None


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """One gate in one placement.

    Attributes:
        name: `G` and a number.
        title: what it promises, in a few words.
        placement: `dedicated` or `shared`; `-` for a gate without an engine.
        passed: whether everything was as promised.
        counts: the figures that were compared, as seen.
        reason: the first thing that was not as promised, and how many more there were; None if it passed.
        seconds: how long it took; not part of the promise.
        notes: lines for a person, such as where two answers differ.
    """

    name: str
    title: str
    placement: str
    passed: bool
    counts: dict[str, Count]
    reason: str | None
    seconds: float
    notes: list[str] = []


class Findings:
    """Collects figures and broken promises; a gate goes on after the first one, so that all are seen."""

    def __init__(self) -> None:
        """Start with nothing seen and nothing broken."""
        self.counts: dict[str, Count] = {}
        self.notes: list[str] = []
        self._broken: list[str] = []

    @property
    def reason(self) -> str | None:
        """The first broken promise and the number of further ones, or None."""
        if not self._broken:
            return None
        more = len(self._broken) - 1
        return self._broken[0] + (f" (and {more} more)" if more else "")

    @property
    def broken(self) -> tuple[str, ...]:
        """Every broken promise, in the order found."""
        return tuple(self._broken)

    def count(self, name: str, seen: Count | Iterable[int]) -> None:
        """Note a figure without comparing it."""
        self.counts[name] = _plain(seen)

    def equal(self, name: str, seen: Count | Iterable[int], promised: Count | Iterable[int]) -> None:
        """Note a figure that must be exactly this."""
        self.count(name, seen)
        wanted = _plain(promised)
        if self.counts[name] != wanted:
            self.broke(f"{name} is {self.counts[name]}, promised {wanted}")

    def holds(self, rule: str, *, holds: bool) -> None:
        """Check a promise that is no figure; the rule says what must be so."""
        if not holds:
            self.broke(f"not so: {rule}")

    def broke(self, what: str) -> None:
        """Note a broken promise."""
        self._broken.append(what)


def _plain(value: Count | Iterable[int]) -> Count:
    """The value as it can be written; a word of an enumeration becomes its text."""
    if isinstance(value, str):
        return str(value)
    return value if isinstance(value, int | float) or value is None else list(value)
