"""KV types and contexts: speed and memory beside f16/f16 at the very same workload, along slices that are disjoint."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from arriero.lab.analysis.slices import Chain, Shape, cut
from arriero.metrics.spread import Spread, ratio
from arriero.record.cpu_lab.analysis import Group, Growth, KvCell, KvScaling, Slice, SliceLine
from arriero.record.cpu_lab.run_key import KV_FIELDS, RunKey, without

REFERENCE: Final = "f16/f16"
_SHAPE: Final = frozenset({"context_size", "prompt_tokens", "generated_tokens"})
_NO_ROW: Final = f"{REFERENCE} was not measured at this workload"


def kv_scaling(groups: Sequence[Group]) -> KvScaling | None:
    """KV types and contexts; None where there is one type at one context, so that nothing is compared."""
    keys = [group.key for group in groups]
    if len({key.kv for key in keys}) < 2 and len({key.context_size for key in keys}) < 2:
        return None
    cells = tuple(_cells(groups))
    slices: list[Slice] = []
    unsliced = 0
    for family in _families(cells):
        found = cut({_shape(cell.group.key) for cell in family})
        slices.extend(_slice(chain, family) for chain in found.chains)
        alone = set(found.alone)
        unsliced += sum(_shape(cell.group.key) in alone for cell in family)
    return KvScaling(cells=cells, slices=tuple(slices), unsliced=unsliced)


def _cells(groups: Sequence[Group]) -> Iterator[KvCell]:
    bases = {without(group.key, KV_FIELDS): group for group in groups if group.key.kv == REFERENCE}
    for group in groups:
        base = bases.get(without(group.key, KV_FIELDS))
        yield KvCell(
            group=group,
            prefill_ratio=None if base is None else ratio(_mean(group.prefill), _mean(base.prefill)),
            decode_ratio=None if base is None else ratio(_mean(group.decode), _mean(base.decode)),
            rss_ratio=None if base is None else ratio(_mean(group.peak_rss_kib), _mean(base.peak_rss_kib)),
            reason=_NO_ROW if base is None else None,
        )


def _families(cells: Iterable[KvCell]) -> Iterable[list[KvCell]]:
    """Cells that differ in shape and KV type alone."""
    found: dict[tuple[object, ...], list[KvCell]] = {}
    for cell in cells:
        found.setdefault(without(cell.group.key, _SHAPE | KV_FIELDS), []).append(cell)
    return found.values()


def _shape(key: RunKey) -> Shape:
    return Shape(key.context_size, key.prompt_tokens, key.generated_tokens)


def _slice(chain: Chain, family: Sequence[KvCell]) -> Slice:
    lines: list[SliceLine] = []
    for kv in dict.fromkeys((cell.group.key.kv_key, cell.group.key.kv_value) for cell in family):
        by_shape = {
            _shape(cell.group.key): cell for cell in family if (cell.group.key.kv_key, cell.group.key.kv_value) == kv
        }
        points = tuple(by_shape[shape] for shape in chain.shapes if shape in by_shape)
        if points:
            lines.append(SliceLine(kv_key=kv[0], kv_value=kv[1], points=points, growth=tuple(_growth(points))))
    return Slice(kind=chain.kind, lines=tuple(lines))


def _growth(points: Sequence[KvCell]) -> Iterator[Growth]:
    for one, other in pairwise(points):
        low, high = one.group, other.group
        tokens = high.key.context_size - low.key.context_size
        if tokens > 0:
            yield Growth(
                from_context=low.key.context_size,
                to_context=high.key.context_size,
                rss_bytes_per_token=_rise(_mean(low.peak_rss_kib), _mean(high.peak_rss_kib), tokens, 1024),
                kv_bytes_per_token=_rise(low.kv_cache_bytes, high.kv_cache_bytes, tokens, 1),
            )


def _rise(low: float | None, high: float | None, tokens: int, unit: int) -> float | None:
    return None if low is None or high is None else (high - low) * unit / tokens


def _mean(found: Spread | None) -> float | None:
    return None if found is None else found.mean
