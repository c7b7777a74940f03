"""The baseline: repetitions of equal settings together, and how steady they are."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from arriero.lab.analysis.rows import Row
from arriero.metrics.spread import Spread, spread
from arriero.record.cpu_lab.analysis import CvExtreme, Group
from arriero.record.cpu_lab.run_key import RunKey

METRICS: Final[Mapping[str, str]] = MappingProxyType({
    "prefill": "prefill (tokens/s)",
    "decode": "decode (tokens/s)",
    "elapsed_s": "duration (s)",
    "peak_rss_kib": "peak memory (KiB)",
})
"""Field of a group -> its words."""


def groups_of(rows: Iterable[Row]) -> tuple[Group, ...]:
    """Rows with equal keys together, in the order in which the keys came first."""
    by_key: dict[RunKey, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    return tuple(_group(key, members) for key, members in by_key.items())


def cv_extremes(groups: Sequence[Group]) -> tuple[CvExtreme, ...]:
    """For each metric its steadiest group, then its least steady one; of groups with several repetitions."""
    found: list[CvExtreme] = []
    for metric in METRICS:
        several = list(_several(groups, metric))
        if several:
            found.append(min(several, key=attrgetter("cv")))
            found.append(max(several, key=attrgetter("cv")))
    return tuple(found)


def _group(key: RunKey, rows: Sequence[Row]) -> Group:
    kv_bytes = {row.kv_cache_bytes for row in rows}
    return Group(
        key=key,
        prefill=_spread([row.prefill for row in rows]),
        decode=_spread([row.decode for row in rows]),
        elapsed_s=_spread([row.elapsed_s for row in rows]),
        peak_rss_kib=_spread([row.peak_rss_kib for row in rows]),
        # one setting has one KV size; where repetitions disagree, none of them is believed
        kv_cache_bytes=next(iter(kv_bytes)) if len(kv_bytes) == 1 else None,
        model_bytes=next((row.model_bytes for row in rows if row.model_bytes is not None), None),
    )


def _spread(values: Iterable[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return spread(known) if known else None


def _several(groups: Sequence[Group], metric: str) -> Iterator[CvExtreme]:
    for group in groups:
        found: Spread | None = getattr(group, metric)
        if found is not None and found.n > 1 and found.cv is not None:
            yield CvExtreme(metric=metric, key=group.key, cv=found.cv, n=found.n)
