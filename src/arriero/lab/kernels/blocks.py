"""Quantised blocks as numpy values of the layouts in `sources/blocks.h`, random ones and adversarial ones.

Q8[count, 4, depth]   weights of a tile: four rows of `depth` blocks
Q8[count, 2, depth]   its activations
Q6[count, blocks]     a row of weights
Q8K[count, blocks]    a row of activations
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Q8: Final = np.dtype([("scale", "<u2"), ("quants", "i1", 32)])
Q6: Final = np.dtype([("low", "u1", 128), ("high", "u1", 64), ("scales", "i1", 16), ("scale", "<u2")])
Q8K: Final = np.dtype([("scale", "<f4"), ("quants", "i1", 256), ("sums", "<i2", 16)])

Blocks: TypeAlias = NDArray[np.void]
Halves: TypeAlias = NDArray[np.uint16]

MOST: Final = 127  # the quantiser of Q8_0 and Q8_K never writes -128, whose absolute value has no place in a byte
LARGEST_HALF: Final = 0x7BFF

ADVERSARIAL_PAIRS: Final = (
    (0x0000, 0x8000),  # both zeros
    (0x0001, 0x8001),  # the least subnormals
    (0x03FF, 0x83FF),  # the greatest subnormals
    (0x0400, 0x8400),  # the least normals
    (0x7BFF, 0xFBFF),  # the greatest
    (0x3C00, 0xBC00),  # one
    (0x7C00, 0xFC00),  # infinities
    (0x7E00, 0x7C01),  # a quiet and a signalling NaN
    (0x3555, 0xFFFF),  # a third, beside a NaN with every bit
    (0x7BFF, 0x0001),  # the greatest beside the least
)
"""Pairs of half-precision bits at which a conversion is most likely to go wrong."""


class Operands(NamedTuple):
    """What a kernel takes, for many cases at once."""

    weights: Blocks
    activations: Blocks


def scale_pairs(rng: np.random.Generator, count: int) -> Halves:
    """uint16[10 + count, 2]: the adversarial pairs, then any bits at all, infinities and NaNs among them."""
    random = rng.integers(0, 1 << 16, size=(count, 2), dtype=np.uint16)
    return np.concatenate([np.array(ADVERSARIAL_PAIRS, dtype=np.uint16), random])


def random_tiles(rng: np.random.Generator, count: int, depth: int) -> Operands:
    """Half of them with scales as models have them, half with any finite scale; quants are any."""
    return Operands(_random_rows(rng, count, 4, depth), _random_rows(rng, count, 2, depth))


def adversarial_tiles(depth: int) -> Operands:
    """Ten tiles: zeros, extremes, cancellation, subnormal, infinite and undefined scales, one lone value."""
    cases = [Operands(_row(weight, 4, depth), _row(activation, 2, depth)) for weight, activation in _extremes(depth)]
    return Operands(np.concatenate([each.weights for each in cases]), np.concatenate([e.activations for e in cases]))


def random_dots(rng: np.random.Generator, count: int, blocks: int) -> Operands:
    """Rows with scales as models have them, and any quants."""
    weights = np.zeros((count, blocks), dtype=Q6)
    weights["low"] = rng.integers(0, 256, size=(count, blocks, 128))
    weights["high"] = rng.integers(0, 256, size=(count, blocks, 64))
    weights["scales"] = rng.integers(-128, 128, size=(count, blocks, 16))
    weights["scale"] = rng.uniform(1e-5, 1e-3, size=(count, blocks)).astype(np.float16).view(np.uint16)
    activations = np.zeros((count, blocks), dtype=Q8K)
    activations["scale"] = rng.uniform(1e-4, 2e-2, size=(count, blocks))
    activations["quants"] = rng.integers(-MOST, MOST + 1, size=(count, blocks, 256))
    return Operands(weights, with_sums(activations))


def adversarial_dots(blocks: int) -> Operands:
    """Ten rows: every extreme of six bits, of group scales and of activations, and scales that vanish or grow."""
    weights = np.zeros((10, blocks), dtype=Q6)
    activations = np.zeros((10, blocks), dtype=Q8K)
    weights["scale"], activations["scale"] = 0x3C00, 1.0
    weights["scales"], activations["quants"] = 127, MOST
    weights["low"][1::2], weights["high"][1::2] = 0xFF, 0xFF  # quants of -32 and of 31 by turns
    weights["scales"][2:4] = -128
    activations["quants"][4:6] = -MOST
    activations["quants"][6:8, :, ::2] = -MOST
    weights["scale"][8], activations["scale"][8] = 0x0001, np.float32(1e-30)  # their product is small and still normal
    weights["scale"][9], activations["scale"][9] = LARGEST_HALF, np.float32(1e6)
    return Operands(weights, with_sums(activations))


def with_sums(activations: Blocks) -> Blocks:
    """The same blocks with the sums of their groups filled in, as ggml's own kernel reads them."""
    quants = activations["quants"].astype(np.int16)
    activations["sums"] = quants.reshape(*quants.shape[:-1], 16, 16).sum(axis=-1)
    return activations


def _random_rows(rng: np.random.Generator, count: int, rows: int, depth: int) -> Blocks:
    found = np.zeros((count, rows, depth), dtype=Q8)
    found["quants"] = rng.integers(-MOST, MOST + 1, size=(count, rows, depth, 32))
    usual = rng.uniform(1e-4, 5e-2, size=(count, rows, depth)).astype(np.float16).view(np.uint16)
    finite = rng.integers(0, LARGEST_HALF + 1, size=(count, rows, depth), dtype=np.uint16)
    finite |= rng.integers(0, 2, size=(count, rows, depth), dtype=np.uint16) << 15
    found["scale"] = usual
    found["scale"][count // 2 :] = finite[count // 2 :]
    return found


class _Fill(NamedTuple):
    scale: int | tuple[int, ...]  # half-precision bits, by depth in turn
    quants: int | tuple[int, ...]  # by place in turn


def _extremes(depth: int) -> Iterator[tuple[_Fill, _Fill]]:
    one, most, least = 0x3C00, MOST, -MOST
    yield _Fill(one, 0), _Fill(one, most)
    yield _Fill(0x8000, most), _Fill(one, least)
    yield _Fill(LARGEST_HALF, most), _Fill(LARGEST_HALF, least)
    yield _Fill(LARGEST_HALF, least), _Fill(LARGEST_HALF, least)
    yield _Fill((one, 0xBC00), (most, least)), _Fill(one, most)  # cancels from place to place, and with depth
    yield _Fill(0x0001, most), _Fill(0x0001, least)
    yield _Fill((LARGEST_HALF, 0x0001), most), _Fill((0x0001, LARGEST_HALF), (1, -1, 0))
    yield _Fill(0x7C00, (most, 0)), _Fill(one, 1)  # infinite scales, and infinity times zero
    yield _Fill(0x7E00, 1), _Fill(one, 1)
    yield _Fill((one,) + (0,) * max(1, depth - 1), (1,) + (0,) * 31), _Fill(one, 1)  # one lone value


def _row(fill: _Fill, rows: int, depth: int) -> Blocks:
    found = np.zeros((1, rows, depth), dtype=Q8)
    found["scale"] = np.resize(np.array(fill.scale, dtype=np.uint16), depth)
    found["quants"] = np.resize(np.array(fill.quants, dtype=np.int8), 32)
    return found
