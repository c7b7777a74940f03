"""Comparison: whether results on one page may be held against one another, and in what they differ."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from arriero.report.document import Alert, Column, Fold, Level, Part, Table
from arriero.report.written import UNDEFINED

_SIDE_BY_SIDE: Final = 3
_HASH: Final = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What several results have in common.

    Attributes:
        names: of the results, in their order.
        traits: trait → text of each result; None where its file does not say.
        decisive: the trait without whose equality no figure may be compared.
        excluded: name of a result that no comparison accepts → why, such as `is invalid (...)`.
    """

    names: tuple[str, ...]
    traits: Mapping[str, tuple[str | None, ...]]
    decisive: str
    excluded: Mapping[str, str]

    @property
    def is_fair(self) -> bool:
        """Whether figures may be held against one another: all were asked the same, and none is excluded."""
        return _is_same(self.traits[self.decisive]) and not self.excluded

    @property
    def obstacle(self) -> str | None:
        """Why nothing is compared; None if it may be, or there is one result only."""
        if len(self.names) < 2 or self.is_fair:
            return None
        found = [f"{name} {why}" for name, why in self.excluded.items()]
        if not _is_same(self.traits[self.decisive]):
            is_known = None not in self.traits[self.decisive]
            why = "have different workloads" if is_known else "cannot be shown to have the same workload"
            found.insert(0, f"The {len(self.names)} results {why}")
        return "; ".join(found)

    @property
    def differing(self) -> tuple[str, ...]:
        """Traits that differ or are not known of everybody, in their order."""
        return tuple(name for name, texts in self.traits.items() if not _is_same(texts))

    def parts(self) -> tuple[Part, ...]:
        """What to say before anything is compared; nothing for a single result."""
        if len(self.names) < 2:
            return ()
        if not self.differing:
            return (self._alert(),)
        table = self._table()
        is_long = len(self.names) > _SIDE_BY_SIDE
        return (self._alert(), Fold("In what they differ", (table,)) if is_long else table)

    def _alert(self) -> Alert:
        count = len(self.names)
        if self.obstacle is not None:
            return Alert(
                Level.BAD,
                f"{self.obstacle}: figures stand side by side here but must not be compared, and no ratios are given.",
            )
        others = [name for name in self.differing if name != self.decisive]
        same = f"The {count} results have the same workload"
        if not others:
            return Alert(Level.GOOD, f"{same}, and agree in {_listed([*self.traits][1:])} as well.")
        if len(others) == 1:
            return Alert(Level.NOTE, f"{same}, and differ in {others[0]} alone.")
        why = "a difference between their figures may come from any of these"
        return Alert(Level.NOTE, f"{same}, and differ in {_listed(others)}: {why}.")

    def _table(self) -> Table:
        """Few results stand side by side; many stand one below the other."""
        names = self.differing
        cells = [[_cell(text) for text in self.traits[name]] for name in names]
        if len(self.names) > _SIDE_BY_SIDE:
            columns = (Column("", is_number=False), *(Column(name, is_number=False) for name in names))
            rows = [(result, *row) for result, row in zip(self.names, zip(*cells, strict=True), strict=True)]
        else:
            columns = (Column("", is_number=False), *(Column(name, is_number=False) for name in self.names))
            rows = [(name, *row) for name, row in zip(names, cells, strict=True)]
        return Table(columns, tuple(rows), "In what they differ")


def compared(
    names: Sequence[str],
    traits: Sequence[Mapping[str, str | None]],
    decisive: str,
    excluded: Mapping[str, str] = MappingProxyType({}),
) -> Comparison:
    """Put traits of results side by side; the order of traits is that of their first appearance."""
    found = dict.fromkeys(name for each in traits for name in each)
    return Comparison(
        names=tuple(names),
        traits={name: tuple(each.get(name) for each in traits) for name in found},
        decisive=decisive,
        excluded=excluded,
    )


def _is_same(texts: Sequence[str | None]) -> bool:
    return None not in texts and len(set(texts)) == 1


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _cell(text: str | None) -> str:
    """A hash is shown by its beginning; the whole one stands with the result's provenance."""
    if text is None:
        return UNDEFINED
    return f"`{_HASH.sub(lambda match: f'{match[0][:12]}…', text)}`"
