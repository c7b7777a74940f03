"""Rows: one measured repetition each, whatever wrote it, and which of them count.

A row is malformed if it cannot be a measurement, and a duplicate if its run holds the same repetition of the same
setting already. Both are left out, counted and told; nothing is mended.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from arriero.record.cpu_lab.run_key import RunKey

DUPLICATE: Final = "duplicate"
MALFORMED: Final = "malformed"


class Row(NamedTuple):
    """One successful measured repetition."""

    key: RunKey
    run_id: str
    invocation_id: str
    repetition: int
    prefill: float | None  # tokens/s; None where no prompt was asked for, or none is recorded
    decode: float | None  # same, of generated tokens
    elapsed_s: float | None
    peak_rss_kib: int | None
    kv_cache_bytes: int | None
    model_bytes: int | None
    problem: str | None = None  # why whoever made the row does not believe it


class Sifted(NamedTuple):
    """Rows that count."""

    rows: tuple[Row, ...]
    excluded: Mapping[str, int]  # why -> how many
    warnings: tuple[str, ...]


def sift(rows: Iterable[Row]) -> Sifted:
    """Leave out what is malformed or a duplicate; the first of equal ones stays."""
    kept: list[Row] = []
    excluded: Counter[str] = Counter()
    warnings: list[str] = []
    seen: set[tuple[str, RunKey, int]] = set()
    for row in rows:
        problem = fault_of(row)
        identity = (row.run_id, row.key, row.repetition)
        if problem is not None:
            excluded[MALFORMED] += 1
            warnings.append(f"{row.invocation_id} is left out: {problem}")
        elif identity in seen:
            excluded[DUPLICATE] += 1
            warnings.append(f"{row.invocation_id} is left out: its run holds this repetition of this setting already")
        else:
            seen.add(identity)
            kept.append(row)
    return Sifted(tuple(kept), dict(excluded), (*warnings, *_several_runs(kept)))


def fault_of(row: Row) -> str | None:
    """What makes a row malformed, or None."""
    key = row.key
    if row.problem is not None:
        return row.problem
    if key.depth < 0:
        return f"a context of {key.context_size} does not hold {key.prompt_tokens} + {key.generated_tokens} tokens"
    if row.repetition < 1:
        return f"repetition {row.repetition} is below 1"
    return _bad_rate(row) or _bad_amount(row)


def _bad_rate(row: Row) -> str | None:
    rates = (
        ("prompt", row.prefill, row.key.prompt_tokens),
        ("generation", row.decode, row.key.generated_tokens),
    )
    for name, rate, tokens in rates:
        if tokens and rate is None:
            return f"no {name} rate"
        if rate is not None and not (math.isfinite(rate) and rate > 0):
            return f"a {name} rate of {rate}"
    return None


def _bad_amount(row: Row) -> str | None:
    amounts = (
        ("duration", row.elapsed_s), ("peak memory", row.peak_rss_kib), ("KV size", row.kv_cache_bytes),
    )  # fmt: skip
    for name, value in amounts:
        if value is not None and not (math.isfinite(value) and value >= 0):
            return f"a {name} of {value}"
    return None


def _several_runs(rows: Iterable[Row]) -> tuple[str, ...]:
    """A line if repetitions of one setting come from several runs, as they were taken at other times."""
    runs: dict[RunKey, set[str]] = {}
    for row in rows:
        runs.setdefault(row.key, set()).add(row.run_id)
    count = sum(len(each) > 1 for each in runs.values())
    if not count:
        return ()
    settings = "1 setting was" if count == 1 else f"{count} settings were"
    return (f"{settings} measured in several runs: their repetitions are pooled, though taken at other times",)
