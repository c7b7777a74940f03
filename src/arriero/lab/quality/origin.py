"""Where a reference's weights come from, as far as its file shows it.

A file of 16-bit numbers looks like a good reference, and is none if its numbers came out of a coarser file: llama.cpp
writes any format from any other, and the header does not say from which. The numbers do. Formats of 4 bits give the 32
weights of a block at most 16 different values; Q8_0 makes each of them a whole multiple of a 127th of the block's
largest. Neither happens by chance: 32 trained weights are nearly all different.

Rounding to 16 bits keeps the first property, and blurs the second by an eighth of a step at most (F16; BF16 is too
coarse to tell). Formats of 5 and 6 bits leave traces that are no proof in blocks as short as theirs: they stay unknown.
"""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.gguf import GgufHeader, TensorInfo, read_header
from arriero.record.cpu_lab.model_facts import ModelFacts
from arriero.record.cpu_lab.quality_figures import Origin, OriginKind

_BLOCK: Final = 32
_FOUR_BITS: Final = 16  # different values
_EIGHT_BITS: Final = 127  # whole steps on either side of 0
_MOST_BLUR: Final = 0.15  # of a step
_SHARE: Final = 0.99  # of blocks; those of zeros tell nothing
_WEIGHTS: Final = 1 << 18  # of each tensor that is looked at
_TENSORS: Final = 3
_FLOATS: Final = ("F16", "BF16", "F32")
_NO_REFERENCE: Final = "figures say how far a file is from this one, not from the weights that were trained"


def origin_of(path: Path, facts: ModelFacts, note: str | None = None) -> Origin:
    """What is known of a reference; reads less than a megabyte of each of a few tensors.

    Raises:
        ModelUnreadable: see `read_header`.
    """
    kind, words = _known(path, facts)
    return Origin(kind=kind, words=words, note=note)


def grid_of(values: NDArray[np.float32]) -> str | None:
    """The format that weights were in before, in words; None if they show none.

    Args:
        values: float32[num_weights], consecutive in rows that fill whole blocks of 32.
    """
    blocks = values[: len(values) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    blocks = blocks[np.any(blocks != 0, axis=1)].astype(np.float64)  # zeros fit every grid
    if not len(blocks):
        return None
    ordered = np.sort(blocks, axis=1)
    different = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    if np.mean(different <= _FOUR_BITS) >= _SHARE:
        return f"4 bits or fewer: at most {_FOUR_BITS} different values in every {_BLOCK} weights"
    steps = np.asarray(blocks / np.abs(blocks).max(axis=1, keepdims=True) * _EIGHT_BITS, np.float64)
    blur = np.abs(steps - np.rint(steps)).max(axis=1)
    if np.mean(blur <= _MOST_BLUR) >= _SHARE:
        return f"8 bits: every weight is a whole multiple of a {_EIGHT_BITS}th of the largest of {_BLOCK}"
    return None


def _known(path: Path, facts: ModelFacts) -> tuple[OriginKind, str]:
    header = read_header(path)
    matrices = sorted((each for each in header.tensors if len(each.shape) > 1), key=lambda each: -each.num_weights)
    packed = sorted({each.type.name for each in matrices if each.type.is_quantised})
    if packed:
        return OriginKind.QUANTISED, f"{facts.file} is itself quantised ({', '.join(packed)}): {_NO_REFERENCE}"
    grids = {grid_of(_weights(path, header, each)) for each in matrices[:_TENSORS] if each.type.name in _FLOATS}
    found = sorted(grid for grid in grids if grid is not None)
    if found:
        name, before = facts.declared_format or "float", "; and ".join(found)
        words = f"{facts.file} is {name}, but requantised from {before}. It is no quality reference: {_NO_REFERENCE}"
        return OriginKind.REQUANTISED, words
    return OriginKind.UNKNOWN, f"{facts.file} shows no trace of 4 or 8 bits; what it was made from, it does not say"


def _weights(path: Path, header: GgufHeader, tensor: TensorInfo) -> NDArray[np.float32]:
    """The first weights of a float tensor."""
    count = min(_WEIGHTS, tensor.num_weights)
    at = header.data_at + tensor.offset
    match tensor.type.name:
        case "F16":
            return np.fromfile(path, "<f2", count, offset=at).astype(np.float32)
        case "BF16":
            return (np.fromfile(path, "<u2", count, offset=at).astype(np.uint32) << 16).view(np.float32)
        case _:
            return np.fromfile(path, "<f4", count, offset=at).astype(np.float32)
