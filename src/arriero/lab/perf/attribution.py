"""Rows of a tool become an attribution: merged by symbol and object, the nameless ones by function, families named."""

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.lab.perf.functions import Tables, nameless
from arriero.lab.perf.report_text import Report, shares_of
from arriero.metrics.symbol_families import family_of
from arriero.record.cpu_lab.folded_stacks import stack_word
from arriero.record.cpu_lab.perf import WHOLE
from arriero.record.cpu_lab.perf_attribution import (
    Attribution,
    CallGraph,
    Measure,
    StacksFile,
    SymbolRow,
)

_NO_CALLERS: Final[Mapping[str, str]] = MappingProxyType({})
LIMIT: Final = 0.001
"""Functions below this share of everything are left out, and their sum is told."""


class Part(NamedTuple):
    """What one row of a tool gives to its function."""

    symbol: str
    shared_object: str
    share: float
    number: int | None
    is_resolved: bool


class Label(NamedTuple):
    """What the shares of an attribution are."""

    measure: Measure
    call_graph: CallGraph
    note: str
    scope: str = WHOLE


def report_parts(report: Report, tables: Tables) -> list[Part]:
    """Rows of perf, those without a name under the function that they lie in."""
    return [
        Part(
            symbol=row.symbol or nameless(row.address, row.shared_object, tables),
            shared_object=row.shared_object,
            share=share,
            number=row.samples,
            is_resolved=row.symbol is not None,
        )
        for row, share in zip(report.rows, shares_of(report.rows), strict=True)
    ]


def attribution(
    parts: Iterable[Part],
    label: Label,
    *,
    total: int,
    lost: int | None = None,
    stacks: StacksFile | None = None,
    callers: Mapping[str, str] = _NO_CALLERS,
    limit: float = LIMIT,
) -> Attribution:
    """Everything above the limit, the hottest first; equal shares by symbol, then by object.

    `callers` tells who calls a function without a name, by the word that a stack has for it.
    """
    rows = sorted(merged(parts, callers), key=lambda row: (-row.share, row.symbol, row.shared_object))
    kept = tuple(row for row in rows if row.share >= limit)
    return Attribution(
        measure=label.measure,
        scope=label.scope,
        note=label.note,
        call_graph=label.call_graph,
        total=total,
        limit=limit,
        left_out=min(1.0, sum(row.share for row in rows[len(kept) :])),
        lost=lost,
        rows=kept,
        stacks=stacks,
    )


def merged(parts: Iterable[Part], callers: Mapping[str, str] = _NO_CALLERS) -> list[SymbolRow]:
    """One row for each symbol of each object."""
    found: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        found.setdefault((part.symbol, part.shared_object), []).append(part)
    return [_row(symbol, shared_object, each, callers) for (symbol, shared_object), each in found.items()]


def _row(symbol: str, shared_object: str, parts: Sequence[Part], callers: Mapping[str, str]) -> SymbolRow:
    is_resolved = all(part.is_resolved for part in parts)
    called_by = None if is_resolved else callers.get(stack_word(symbol, shared_object))
    counts = [part.number for part in parts if part.number is not None]
    return SymbolRow(
        symbol=symbol,
        shared_object=shared_object,
        share=min(1.0, sum(part.share for part in parts)),
        count=sum(counts) if counts else None,
        family=family_of(symbol if is_resolved else called_by or "", shared_object),
        is_resolved=is_resolved,
        called_by=called_by,
    )


def base_names(files: Iterable[str]) -> Mapping[str, str]:
    """Base name -> path; what is no file, such as `[vdso]`, is left out."""
    return {os.path.basename(file): file for file in files if file.startswith("/")}  # noqa: PTH119 - a tool's word
