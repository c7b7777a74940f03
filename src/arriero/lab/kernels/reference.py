"""What the kernels have to give: bit for bit in single precision, and nearly in double precision.

The single-precision reference repeats the order of every operation of the kernels: one fused multiply-add for each
block and lane, then the sum of the eight lanes by halves. numpy has no fused multiply-add; here is an exact one.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arriero.lab.kernels.blocks import Halves, Operands

Single: TypeAlias = NDArray[np.float32]
Double: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int32]

EPSILON: Final = 2.0**-24
"""Largest relative error of one rounding to single precision."""

TINY: Final = 2.0**-149
"""Largest absolute error of one rounding below the normal numbers, and more."""


class Reference(NamedTuple):
    """Expected results, one for each output of each case."""

    single: Single  # with the kernels' own order of operations
    double: Double  # of the dequantised values
    magnitude: Double  # sum of the absolute terms: what rounding errors are relative to


def half_to_single(bits: Halves) -> Single:
    """The values of half-precision bits: exact."""
    with np.errstate(invalid="ignore"):  # signalling NaNs signal
        return bits.view(np.float16).astype(np.float32)


def fused_multiply_add(a: Single, b: Single, c: Single) -> Single:
    """A * b + c, rounded once.

    The product is exact in double precision. The sum is rounded to odd there, and then to single precision, which
    together is one rounding. Source: Boldo and Melquiond, Emulation of a FMA and correctly rounded sums, 2008.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        total = product + addend
        part = total - product
        error = (product - (total - part)) + (addend - part)
        is_inexact = np.isfinite(total) & (error != 0)
        bits = total.view(np.int64)
        # an even last bit moves towards the exact sum; as integers, larger bits are farther from zero
        step = np.where((error > 0) == (total > 0), 1, -1)
        odd = np.where(is_inexact & (bits & 1 == 0), bits + step, bits).view(np.float64)
        rounded: Single = odd.astype(np.float32)
    return rounded


def sum_of_lanes(lanes: Single) -> Single:
    """float32[..., 8] -> float32[...], halves first."""
    with np.errstate(invalid="ignore", over="ignore"):
        four = lanes[..., 4:] + lanes[..., :4]
        two = four[..., :2] + four[..., 2:]
        return np.add(two[..., 0], two[..., 1], dtype=np.float32)


def tile_reference(operands: Operands) -> Reference:
    """Results of tiles: [count, 2, 4], one row for each row of activations."""
    weights, activations = operands
    count, _, depth = weights.shape
    shape = (count, 2, 4)
    lanes = np.zeros((*shape, 8), dtype=np.float32)
    total, magnitude = np.zeros(shape), np.zeros(shape)
    with np.errstate(invalid="ignore", over="ignore"):
        for at in range(depth):
            rows, columns = weights[:, None, :, at], activations[:, :, None, at]
            whole = _fours(rows["quants"], columns["quants"], shape)
            first, second = half_to_single(rows["scale"]), half_to_single(columns["scale"])
            scale = np.broadcast_to((first * second)[..., None], lanes.shape)
            lanes = fused_multiply_add(scale, whole.astype(np.float32), lanes)
            exact = first.astype(np.float64) * second
            total += exact * whole.sum(axis=-1)
            magnitude += np.abs(exact) * np.abs(whole).sum(axis=-1)
    return Reference(sum_of_lanes(lanes), total, magnitude)


def dot_reference(operands: Operands) -> Reference:
    """Results of dot products: [count]."""
    weights, activations = operands
    count, blocks = weights.shape
    lanes = np.zeros((count, 8), dtype=np.float32)
    total, magnitude = np.zeros(count), np.zeros(count)
    with np.errstate(invalid="ignore", over="ignore"):
        for at in range(blocks):
            block, row = weights[:, at], activations[:, at]
            products = six_bits(block["low"], block["high"]) * row["quants"].astype(np.int32)
            # eight strips of eight lanes of four values; lanes 0 to 3 are one group of 16, lanes 4 to 7 the next
            fours = products.reshape(count, 8, 8, 4).sum(axis=-1)
            groups = np.repeat(block["scales"].astype(np.int32).reshape(count, 8, 2), 4, axis=-1)
            scaled: Integers = fours * groups
            whole = scaled.sum(axis=1, dtype=np.int32)
            first = half_to_single(block["scale"])
            scale = np.broadcast_to((first * row["scale"])[:, None], lanes.shape)
            lanes = fused_multiply_add(scale, whole.astype(np.float32), lanes)
            exact = first.astype(np.float64) * row["scale"]
            total += exact * scaled.sum(axis=(1, 2))
            magnitude += np.abs(exact) * np.abs(scaled).sum(axis=(1, 2))
    return Reference(sum_of_lanes(lanes), total, magnitude)


def six_bits(low: NDArray[np.uint8], high: NDArray[np.uint8]) -> Integers:
    """int32[count, 256]: the quants of Q6_K blocks, -32 to 31, in their order."""
    count = len(low)
    halves: list[Integers] = []
    for half in range(2):
        nibbles = low[:, 64 * half : 64 * half + 64].reshape(count, 2, 32)
        tops = high[:, 32 * half : 32 * half + 32]
        lows = np.concatenate([nibbles & 0x0F, nibbles >> 4], axis=1)
        highs = np.stack([(tops >> shift) & 3 for shift in (0, 2, 4, 6)], axis=1)
        halves.append(((lows | highs << 4).astype(np.int32) - 32).reshape(count, 128))
    return np.concatenate(halves, axis=1)


def rounding_bound(magnitude: Double, roundings: int) -> Double:
    """How far single precision may be from the exact sum.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1: gamma_n times the sum of the absolute
    terms, and what is lost below the normal numbers.

    Args:
        magnitude: sum of the absolute terms.
        roundings: on the way of one term into the result.
    """
    relative = roundings * EPSILON / (1 - roundings * EPSILON)
    bound: Double = relative * magnitude + roundings * 8 * TINY
    return bound


def _fours(weights: NDArray[np.int8], activations: NDArray[np.int8], shape: tuple[int, ...]) -> Integers:
    """int32[*shape, 8]: sums of four neighbouring products."""
    products = weights.astype(np.int32) * activations.astype(np.int32)
    found: Integers = products.reshape(*shape, 8, 4).sum(axis=-1, dtype=np.int32)
    return found
