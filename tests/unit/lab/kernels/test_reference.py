"""The numpy reference against exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.lab.kernels.blocks import (
    ADVERSARIAL_PAIRS,
    Q6,
    Q8,
    Q8K,
    Operands,
    adversarial_dots,
    adversarial_tiles,
    random_dots,
    random_tiles,
    scale_pairs,
)
from arriero.lab.kernels.reference import (
    dot_reference,
    fused_multiply_add,
    half_to_single,
    rounding_bound,
    six_bits,
    sum_of_lanes,
    tile_reference,
)

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60)


def nearest_single(value: Fraction) -> float:
    """The float32 nearest to an exact value, ties to even: by trying the neighbours of a first guess."""
    guess = np.float32(float(value))
    around = (np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf)))
    return float(min(around, key=lambda each: (abs(Fraction(float(each)) - value), int(each.view(np.uint32)) & 1)))


@given(FLOATS, FLOATS, FLOATS)
def test_the_multiply_add_is_rounded_once(a: float, b: float, c: float) -> None:
    found = fused_multiply_add(*(np.array([each], dtype=np.float32) for each in (a, b, c)))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert float(found[0]) == nearest_single(exact)


def test_rounding_twice_would_be_seen() -> None:
    # a * b lies 2**-70 below half of the last place of c, which double precision cannot hold beside c
    a, b, c = (np.array([each], dtype=np.float32) for each in (1 + 2**-23, 2**-24 * (1 - 2**-23), 1 + 2**-23))
    twice = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32)
    assert twice[0] == np.float32(1 + 2**-22)
    assert fused_multiply_add(a, b, c)[0] == c[0]


def test_infinities_and_undefined_numbers_go_through() -> None:
    values = np.array([np.inf, np.nan, np.inf], dtype=np.float32)
    found = fused_multiply_add(values, np.array([1, 1, 0], dtype=np.float32), np.zeros(3, dtype=np.float32))
    assert found[0] == np.inf
    assert np.isnan(found[1:]).all()


def test_lanes_are_summed_by_halves() -> None:
    # the order matters: 1 is lost beside 2**24 and 2**24 cancels later
    lanes = np.array([2**24, 1, 0, 0, -(2**24), 0, 0, 0], dtype=np.float32)
    assert sum_of_lanes(lanes) == 1
    assert sum_of_lanes(np.array([2**24, 2**24, -(2**24), 1, 0, 0, 0, 0], dtype=np.float32)) == np.float32(2**24 + 1)


def test_layouts_have_the_sizes_of_the_format() -> None:
    assert (Q8.itemsize, Q6.itemsize, Q8K.itemsize) == (34, 210, 292)


def test_six_bits_are_where_the_format_has_them() -> None:
    low, high = np.zeros((1, 128), dtype=np.uint8), np.zeros((1, 64), dtype=np.uint8)
    assert (six_bits(low, high) == -32).all()
    low[0, 3], high[0, 3] = 0xA5, 0b11_10_01_00
    found = six_bits(low, high)[0]
    assert [found[3], found[35], found[67], found[99]] == [0x5 - 32, 0x10 - 32, 0x2A - 32, 0x30 - 32]
    low[0, 64 + 32], high[0, 32] = 0x7F, 0b01_00_11_00
    found = six_bits(low, high)[0]
    assert [found[128], found[160], found[192], found[224]] == [-32, 0x3F - 32, -32, 0x17 - 32]


def test_a_tile_is_the_product_of_the_dequantised_values() -> None:
    operands = random_tiles(np.random.default_rng(1), 4, 3)
    reference = tile_reference(operands)
    weights, activations = (
        half_to_single(each["scale"]).astype(float)[..., None] * each["quants"] for each in operands
    )
    plain = np.einsum("crdq,ckdq->ckr", weights, activations)
    np.testing.assert_allclose(reference.double, plain, rtol=1e-12, atol=1e-9)
    assert (np.abs(reference.single - plain) <= rounding_bound(reference.magnitude, 3 + 4)).all()


def test_a_dot_is_the_product_of_the_dequantised_values() -> None:
    operands = random_dots(np.random.default_rng(1), 5, 2)
    reference = dot_reference(operands)
    block, row = operands
    quants = np.stack([six_bits(block["low"][:, at], block["high"][:, at]) for at in range(2)], axis=1)
    scales = half_to_single(block["scale"]).astype(float)[..., None] * np.repeat(block["scales"], 16, axis=-1)
    plain = (scales * quants * row["scale"].astype(float)[..., None] * row["quants"]).sum(axis=(1, 2))
    np.testing.assert_allclose(reference.double, plain, rtol=1e-9)
    np.testing.assert_allclose(reference.single, plain, rtol=1e-4, atol=1e-2)


def test_the_cases_hold_what_they_promise() -> None:
    pairs = scale_pairs(np.random.default_rng(2), 10_000)
    assert pairs.shape == (10_010, 2)
    assert [tuple(pair) for pair in pairs[:10].tolist()] == list(ADVERSARIAL_PAIRS)
    values = half_to_single(pairs)
    assert np.isnan(values[10:]).any()
    assert np.isinf(values[:10]).any()
    tiles = adversarial_tiles(5)
    assert tiles.weights.shape == (10, 4, 5)
    assert tiles.activations.shape == (10, 2, 5)
    assert not np.isfinite(tile_reference(tiles).single).all()
    dots = adversarial_dots(3)
    assert dots.weights.shape == dots.activations.shape == (10, 3)
    assert np.isfinite(dot_reference(dots).single).all()


@pytest.mark.parametrize(
    "operands", [random_tiles(np.random.default_rng(3), 6, 4), adversarial_tiles(4)], ids=["random", "adversarial"]
)
def test_quants_have_an_absolute_value_of_one_byte(operands: Operands) -> None:
    assert operands.weights["quants"].min() >= -127
    assert operands.activations["quants"].min() >= -127


def test_sums_of_groups_stand_beside_the_activations() -> None:
    row = random_dots(np.random.default_rng(4), 1, 1).activations[0, 0]
    assert row["sums"].tolist() == row["quants"].astype(int).reshape(16, 16).sum(axis=1).tolist()
