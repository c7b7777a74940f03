"""Which family and which layer a node belongs to, by the weights that it multiplies, its operation and its name.

A weight says most: `blk.3.ffn_up.weight` among the sources settles both. Next comes the operation, since some have one
purpose only. The name is last: llama.cpp gives one to most nodes, such as `kq-3`, and counts the others.
"""

import re
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from arriero.record.cpu_lab.graph_nodes import EMPTY, Family

_LAYER_PATTERNS: Final = tuple(map(re.compile, (r"^blk\.(\d+)\.", r"-(\d+)(?: \(.*\))?$", r"^cache_[kv]_l(\d+)\b")))
_KV: Final = re.compile(r"^cache_[kv]_l\d+\b")
_GLU: Final = frozenset({"SWIGLU", "GEGLU", "REGLU", "SWIGLU_OAI", "GEGLU_ERF", "GEGLU_QUICK", "SILU", "GELU", "RELU"})

_BY_WEIGHT: Final = (
    (re.compile(r"norm\.(?:weight|bias)$"), Family.NORMS),
    (re.compile(r"^blk\.\d+\.attn_"), Family.PROJECTIONS),
    (re.compile(r"^blk\.\d+\.ffn_"), Family.FEED_FORWARD),
    (re.compile(r"^rope_freqs"), Family.ROPE),
)
_HEADS: Final = re.compile(r"^(?:output|token_embd)\.(?:weight|bias)$")

_BY_OPERATION: Final = MappingProxyType({
    "RMS_NORM": Family.NORMS, "NORM": Family.NORMS, "L2_NORM": Family.NORMS, "GROUP_NORM": Family.NORMS,
    "ROPE": Family.ROPE, "SET_ROWS": Family.KV_COPY, "FLASH_ATTN_EXT": Family.ATTENTION, "SOFT_MAX": Family.ATTENTION,
    **dict.fromkeys(sorted(_GLU), Family.FEED_FORWARD),
})  # fmt: skip

_BY_NAME: Final = (
    (re.compile(r"^(?:kq|kqv|attn_inp_kq|KQ_mask|fattn)"), Family.ATTENTION),
    (re.compile(r"^ffn_(?!inp)"), Family.FEED_FORWARD),
    (re.compile(r"^[QKV]cur\b"), Family.PROJECTIONS),
    (re.compile(r"^result_output"), Family.OUTPUT_HEAD),
)


def family_of(operation: str, name: str, sources: Sequence[str]) -> Family:
    """What a node is for.

    Args:
        operation: such as MUL_MAT.
        name: of the node.
        sources: names of what it is made from.
    """
    if operation in EMPTY:
        return Family.VIEWS
    weighted = _by_weight(operation, sources)
    if weighted is not None:
        return weighted
    if operation in _BY_OPERATION:
        return _BY_OPERATION[operation]
    touches_kv = any(_KV.match(each) for each in sources)
    if touches_kv:  # read by a product, written by a copy
        return Family.KV_COPY if operation in {"CPY", "DUP"} else Family.ATTENTION
    named = next((family for pattern, family in _BY_NAME if pattern.match(name)), None)
    if named is not None:
        return named
    return {"GET_ROWS": Family.ROW_CHOICE, "ADD": Family.RESIDUAL}.get(operation, _by_source(sources))


def layer_of(name: str, sources: Sequence[str]) -> int | None:
    """The layer that a node's own name or else a source's tells; None outside of all."""
    for each in (name, *sources):
        for pattern in _LAYER_PATTERNS:
            if found := pattern.search(each):
                return int(found[1])
    return None


def _by_weight(operation: str, sources: Sequence[str]) -> Family | None:
    for source in sources:
        if _HEADS.match(source):
            return Family.EMBEDDING if operation == "GET_ROWS" else Family.OUTPUT_HEAD
        for pattern, family in _BY_WEIGHT:
            if pattern.search(source):
                return family
    return None


def _by_source(sources: Sequence[str]) -> Family:
    """A node without a name of its own, such as a copy into one piece, serves what its source serves."""
    for source in sources:
        for pattern, family in _BY_NAME:
            if pattern.match(source):
                return family
    return Family.OTHER
