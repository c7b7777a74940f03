"""Experiment: what it decides, said before it runs; and what a run of it came to.

    Experiment    name, what it decides, metric, comparison, which difference counts; a configuration; a function
    Statement     one acceptance statement: what was promised, what was seen, whether it holds
    Table         figures that belong together, under one evidence label
    Outcome       statements, tables, facts, limits and raw records of one run

An experiment measures and judges; it neither reads its configuration nor writes its evidence (see `definition.py` and
`evidence.py`). A statement that could not be decided says why, and the run has then not passed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Self, TypeAlias, TypeVar

import msgspec

from arriero.record.bench_parts import Evidence

Value: TypeAlias = bool | int | float | str | None
"""What a statement or the cell of a table holds; None is a value that is not defined."""

EvidenceLabel: TypeAlias = Evidence
"""Where the figures of a table come from; figures of two labels never stand in one column."""

Tell: TypeAlias = Callable[[str], None]
"""Told in a few words what is being done."""


class Judgement(StrEnum):
    """What a statement, or all of them together, came to."""

    HOLDS = "PASS"
    BROKEN = "FAIL"
    OPEN = "OPEN"  # could not be decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One acceptance statement.

    Attributes:
        text: what must be so.
        measured: what was seen.
        bound: what it is compared with, as a phrase.
        holds: whether it is so; None if that could not be decided.
        reason: why it could not be decided.
    """

    text: str
    measured: Value
    bound: str
    holds: bool | None
    reason: str | None = None

    @property
    def judgement(self) -> Judgement:
        """In one word."""
        if self.holds is None:
            return Judgement.OPEN
        return Judgement.HOLDS if self.holds else Judgement.BROKEN

    @classmethod
    def equal(cls, text: str, measured: Value, promised: Value) -> Self:
        """It must be exactly this."""
        return cls(text=text, measured=measured, bound=f"exactly {promised}", holds=measured == promised)

    @classmethod
    def at_most(cls, text: str, measured: float | None, bound: float, unit: str = "") -> Self:
        """It must not be larger."""
        return cls._compared(text, measured, f"at most {bound:g}{unit}", holds=_is(measured, high=bound))

    @classmethod
    def at_least(cls, text: str, measured: float | None, bound: float, unit: str = "") -> Self:
        """It must not be smaller."""
        return cls._compared(text, measured, f"at least {bound:g}{unit}", holds=_is(measured, low=bound))

    @classmethod
    def between(cls, text: str, measured: float | None, low: float, high: float, unit: str = "") -> Self:
        """It must lie between these, both included."""
        return cls._compared(text, measured, f"{low:g} to {high:g}{unit}", holds=_is(measured, low=low, high=high))

    @classmethod
    def so(cls, text: str, measured: Value, bound: str, *, holds: bool) -> Self:
        """A statement of another form, judged by the caller."""
        return cls(text=text, measured=measured, bound=bound, holds=holds)

    @classmethod
    def undecided(cls, text: str, bound: str, reason: str) -> Self:
        """It could not be decided."""
        return cls(text=text, measured=None, bound=bound, holds=None, reason=reason)

    @classmethod
    def _compared(cls, text: str, measured: float | None, bound: str, *, holds: bool | None) -> Self:
        reason = "there was nothing to measure" if holds is None else None
        return cls(text=text, measured=measured, bound=bound, holds=holds, reason=reason)


def _is(measured: float | None, *, low: float = float("-inf"), high: float = float("inf")) -> bool | None:
    """Whether a figure lies in its bounds; one that is not a number does not."""
    return None if measured is None else low <= measured <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Figures that belong together.

    Attributes:
        title: what they are.
        label: where they come from; a table of two kinds is two tables.
        heads: of the columns, with units.
        rows: as many cells as there are heads.
        note: one line below it, or empty.
    """

    title: str
    label: EvidenceLabel
    heads: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run came to.

    Attributes:
        statements: every acceptance statement, evaluated.
        tables: the figures.
        limits: what the run does not show, a sentence each.
        facts: what ran: model file with size and hash, backend, threads, placement, peers' versions; JSON values.
        raw: raw records by file name, from which every table can be made again.
    """

    statements: tuple[Statement, ...]
    tables: tuple[Table, ...]
    limits: tuple[str, ...]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    raw: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def judgement(self) -> Judgement:
        """BROKEN if any statement does not hold, else OPEN if any could not be decided, or there are none."""
        found = {each.judgement for each in self.statements}
        for judgement in (Judgement.BROKEN, Judgement.OPEN):
            if judgement in found:
                return judgement
        return Judgement.HOLDS if found else Judgement.OPEN


C = TypeVar("C", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Generic[C]):
    """One experiment.

    Attributes:
        name: as on the command line, in `definitions/experiments/NAME.toml` and in `evidence/NAME/`.
        number: its published number, such as `E8`; empty for one of our own.
        decides: the question, in one sentence.
        metric: the figure that decides.
        comparison: what is compared with what, and in which order it is measured.
        difference: which difference counts.
        config: the struct of its configuration; unknown and missing fields are refused.
        run: measures and judges. Whatever a server or engine does wrong becomes part of the outcome.
    """

    name: str
    number: str
    decides: str
    metric: str
    comparison: str
    difference: str
    config: type[C]
    run: Callable[[C, Tell], Outcome]
