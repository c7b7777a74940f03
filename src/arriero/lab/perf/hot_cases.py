"""Attributions become ranks: the repetitions of a case pooled, the first twenty functions, families."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from arriero.metrics.hot_symbols import family_shares, ranked, top_share
from arriero.record.cpu_lab.perf import PerfRecord
from arriero.record.cpu_lab.perf_attribution import Attribution, SymbolRow
from arriero.record.cpu_lab.perf_comparison import CaseHot, FamilyShare, HotFunction

TOP: Final = 20


def hot_cases(groups: Iterable[Sequence[PerfRecord]]) -> tuple[CaseHot, ...]:
    """One for each group of repetitions."""
    return tuple(map(_hot_case, groups))


def _hot_case(records: Sequence[PerfRecord]) -> CaseHot:
    found = [record.attribution for record in records if record.attribution is not None]
    pooled = pool(found)
    shares = [row.share for row in pooled.rows]
    families = family_shares((row.family, row.share) for row in pooled.rows)
    return CaseHot(
        run_id=records[0].run_id,
        case=records[0].case,
        mode=records[0].mode,
        num=len(found),
        attribution=pooled,
        functions=hot_functions(pooled.rows),
        top_5=top_share(shares, 5),
        top_20=top_share(shares, TOP),
        families=tuple(FamilyShare(family=family, share=share) for family, share in families.items()),
    )


def hot_functions(rows: Sequence[SymbolRow], limit: int = TOP) -> tuple[HotFunction, ...]:
    """The first ones, with what they could gain at most."""
    known = {(row.symbol, row.shared_object): row for row in rows}
    return tuple(
        HotFunction(
            rank=each.rank,
            symbol=each.symbol,
            shared_object=each.shared_object,
            family=known[each.symbol, each.shared_object].family,
            is_resolved=known[each.symbol, each.shared_object].is_resolved,
            share=each.share,
            cumulative=each.cumulative,
            bound=each.bound,
            called_by=known[each.symbol, each.shared_object].called_by,
        )
        for each in ranked((row.as_share for row in rows), limit)
    )


def pool(found: Sequence[Attribution]) -> Attribution:
    """Repetitions of one case: means of the shares; a function that one of them left out has 0 there.

    Stacks are those of the first repetition.
    """
    first = found[0]
    if len(found) == 1:
        return first
    rows: dict[tuple[str, str], list[SymbolRow]] = {}
    for each in found:
        for row in each.rows:
            rows.setdefault((row.symbol, row.shared_object), []).append(row)
    means = [_mean(parts, len(found)) for parts in rows.values()]
    lost = [each.lost for each in found if each.lost is not None]
    return msgspec.structs.replace(
        first,
        total=sum(each.total for each in found),
        left_out=sum(each.left_out for each in found) / len(found),
        lost=sum(lost) if lost else None,
        rows=tuple(sorted(means, key=lambda row: (-row.share, row.symbol, row.shared_object))),
    )


def _mean(parts: Sequence[SymbolRow], num: int) -> SymbolRow:
    counts = [part.count for part in parts if part.count is not None]
    return msgspec.structs.replace(
        parts[0], share=sum(part.share for part in parts) / num, count=sum(counts) if counts else None
    )
