import math
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from arriero.metrics.paired import compare_pairs, noise_floor
from arriero.metrics.paired_figures import (
    Interval,
    fewest_pairs,
    half_medians,
    median_interval,
    order_interval,
    side_figures,
    sign_p_value,
)
from arriero.metrics.paired_order import OrderKind, judge_order
from arriero.metrics.paired_verdict import PairedVerdict, Verdict
from tests.unit.metrics.test_drift import jumping, noisy, warming_up


def abba(num_pairs: int) -> str:
    return ("ABBA" * num_pairs)[: 2 * num_pairs]


def judge(
    a: Sequence[float],
    b: Sequence[float],
    *,
    floor: float | None = 0.01,
    higher_is_better: bool = True,
    margin: float | None = None,
    order: str | None = "",
) -> PairedVerdict:
    return compare_pairs(
        list(zip(a, b, strict=True)),
        floor=floor,
        seed=1,
        higher_is_better=higher_is_better,
        margin=margin,
        order=abba(len(a)) if order == "" else order,
    )


def level(value: float, count: int = 12, *, noise: float = 0.005, seed: int = 1) -> list[float]:
    return noisy([value] * count, noise=noise, seed=seed)


# ── verdicts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_difference_far_outside_of_the_noise_is_told() -> None:
    found = judge(level(100), level(110, seed=2))
    assert (found.verdict, found.flags) == (Verdict.BETTER, ())
    assert found.median_ratio == pytest.approx(1.1, abs=0.01)
    assert found.low is not None
    assert found.exact_low is not None
    assert 1 < found.low < 1.1
    assert (found.above, found.below, found.equal, found.num_pairs) == (12, 0, 0, 12)
    assert found.sign_p_value == 2 / 2**12
    assert found.reasons[0].startswith("median ratio 1.09") or found.reasons[0].startswith("median ratio 1.10")


def test_which_way_is_better_depends_on_the_metric() -> None:
    assert judge(level(100), level(110, seed=2), higher_is_better=False).verdict is Verdict.WORSE
    assert judge(level(110), level(100, seed=2), higher_is_better=False).verdict is Verdict.BETTER
    assert judge(level(110), level(100, seed=2)).verdict is Verdict.WORSE


def test_f5_a_difference_inside_the_noise_floor_is_not_resolved() -> None:
    found = judge(level(100), level(102, seed=2), floor=0.05)
    assert found.verdict is Verdict.NOT_RESOLVED
    assert found.low is not None
    assert found.low > 1  # the interval alone would have said better
    assert found.reasons[0].endswith("within the noise floor of 5.00%")


def test_f5_not_resolved_and_no_difference_larger_than_x_are_two_verdicts() -> None:
    noise_20 = judge(level(100, noise=0.2), level(100, noise=0.2, seed=2), margin=0.02)
    quiet = judge(level(100, noise=0.002), level(100, noise=0.002, seed=2), margin=0.02)
    assert noise_20.verdict is Verdict.NOT_RESOLVED
    assert quiet.verdict is Verdict.NO_LARGER_DIFFERENCE
    assert quiet.reasons[0].endswith("no difference larger than 2.00%")


def test_f5_the_interval_of_an_a_a_run_is_the_noise_floor() -> None:
    pairs = list(zip(level(100, noise=0.2), level(100, noise=0.2, seed=2), strict=True))
    floor = noise_floor(pairs, seed=1)
    assert (floor.num_pairs, floor.flags) == (12, ())
    assert floor.low < 1 < floor.high
    assert floor.value == max(floor.high, 1 / floor.low) - 1
    assert floor.value > 0.05


def test_a_few_a_a_pairs_give_their_whole_range() -> None:
    floor = noise_floor([(100, 104), (100, 99), (100, 80)], seed=1)
    assert (floor.low, floor.high, floor.value) == (0.8, 1.04, 0.25)
    assert floor.flags == ("3 A/A pairs are too few for an interval: the floor is their whole range",)


def test_identical_sides_that_differ_are_a_caution() -> None:
    floor = noise_floor(list(zip(level(100), level(105, seed=2), strict=True)), seed=1)
    assert floor.flags == ("two identical sides differ: something favours one of the two places of a pair",)
    assert floor.value > 0.05


def test_an_a_a_run_without_a_ratio_is_refused() -> None:
    with pytest.raises(ValueError, match="no A/A pair"):
        noise_floor([(0.0, 1.0)], seed=1)
    assert noise_floor([(0.0, 1.0), (2.0, 2.0)], seed=1).num_pairs == 1


def test_without_an_a_a_run_the_verdict_is_flagged() -> None:
    found = judge(level(100), level(110, seed=2), floor=None)
    assert (found.verdict, found.flags) == (Verdict.BETTER, ("no A/A run: the noise floor is not known",))


def test_a_resolved_difference_below_the_margin_says_so() -> None:
    found = judge(level(100, noise=0.001), level(101, noise=0.001, seed=2), floor=0.002, margin=0.02)
    assert found.verdict is Verdict.BETTER
    assert found.reasons[1] == "the difference is smaller than the 2.00% that were said to matter"


def test_a_margin_within_the_noise_floor_cannot_be_answered() -> None:
    found = judge(level(100, noise=0.001), level(100, noise=0.001, seed=2), floor=0.05, margin=0.02)
    assert found.verdict is Verdict.NOT_RESOLVED
    assert found.flags == ("the margin of 2.00% lies within the noise floor of 5.00%",)


@pytest.mark.parametrize("count", [1, 5])
def test_fewer_than_six_pairs_decide_nothing(count: int) -> None:
    found = judge(level(100, count), level(200, count))
    assert found.verdict is Verdict.NO_VERDICT
    assert found.reasons == (f"{count} pairs: at 95% no fewer than 6 can decide anything",)
    assert found.exact_low is None


def test_six_pairs_can_decide() -> None:
    assert judge(level(100, 6), level(200, 6, seed=2)).verdict is Verdict.BETTER
    assert judge([100.0] * 6, [200.0, 200, 200, 200, 200, 99]).verdict is Verdict.NOT_RESOLVED


# ── samples that allow no verdict ───────────────────────────────────────────────────────────────────────────────────


def test_f4_no_verdict_while_warming_up_and_one_after_it_was_thrown_away() -> None:
    a, b = warming_up(16), [1.1 * each for each in noisy([25.0] * 5 + [43.0] * 16, seed=2)]
    found = judge(a, b)
    assert (found.verdict, found.discard) == (Verdict.NO_VERDICT, 5)
    assert [reason[:2] for reason in found.reasons] == ["A:", "B:"]
    assert "warm up longer" in found.reasons[0]
    assert judge(a[5:], b[5:]).verdict is Verdict.BETTER


def test_f4_no_verdict_from_a_side_that_jumps() -> None:
    found = judge(jumping(), level(50, 15))
    assert (found.verdict, found.discard) == (Verdict.NO_VERDICT, 0)
    assert found.reasons[0].startswith("A: two levels: 7 samples near 24.94 and 8 near 43.09")


def test_f4_one_jump_in_six_pairs_is_a_warm_up_too() -> None:
    found = judge(noisy([25.0] * 3 + [43.0] * 3), level(50, 6))
    assert found.verdict is Verdict.NO_VERDICT
    assert found.reasons[0].endswith("with 1 change between them; an average of both describes neither; warm up longer")


def test_an_effect_that_changes_during_the_run_is_no_effect() -> None:
    a = level(100, 20)
    b = [value * (1.3 if index < 10 else 1.0) for index, value in enumerate(level(100, 20, seed=2))]
    found = judge(a, b)
    assert found.verdict is Verdict.NO_VERDICT
    assert any(reason.startswith("b / a: ") for reason in found.reasons)


def test_a_slope_is_a_caution_if_interleaved_and_a_refusal_if_not() -> None:
    rising = [100.0 + 3 * k for k in range(12)]
    a, b = noisy(rising), [1.1 * each for each in noisy(rising, seed=2)]
    assert judge(a, b).verdict is Verdict.BETTER
    assert [flag[:2] for flag in judge(a, b).flags] == ["A:", "B:"]
    assert judge(a, b, order="AB" * 12).verdict is Verdict.NO_VERDICT
    assert judge(a, b, order=None).verdict is Verdict.NO_VERDICT


@pytest.mark.parametrize("bad", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (math.inf, 1.0), (1.0, math.nan)])
def test_a_pair_without_a_ratio_gives_no_verdict(bad: tuple[float, float]) -> None:
    pairs = [*zip(level(100, 11), level(110, 11, seed=2), strict=True), bad]
    found = compare_pairs(pairs, floor=0.01, seed=1, higher_is_better=True, order=abba(12))
    assert found.verdict is Verdict.NO_VERDICT
    assert found.reasons[0].startswith("pair 12 has no ratio")
    assert found.num_pairs == 12
    assert found.a is not None
    assert math.isfinite(found.a.mean)


def test_no_pairs_at_all() -> None:
    found = compare_pairs([], floor=None, seed=1, higher_is_better=True, order="")
    assert (found.verdict, found.median_ratio, found.a, found.half_medians) == (Verdict.NO_VERDICT, None, None, None)


# ── order ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", ["AAAAAABBBBBB", "BBBBBBAAAAAA", "aaaaaabbbbbb"])
def test_f7_a_sequential_order_gives_no_verdict(order: str) -> None:
    found = judge(level(100, 6), level(200, 6, seed=2), order=order)
    assert found.verdict is Verdict.NO_VERDICT
    assert found.reasons[0].startswith("sequential order: all runs of")
    assert found.flags[0] == found.reasons[0]  # so that a report shows it on every line
    assert found.order == order


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        ("ABBAABBAABBA", OrderKind.INTERLEAVED),
        ("ABABBABA", OrderKind.INTERLEAVED),
        ("ABABABABABAB", OrderKind.ONE_SIDED),
        ("ABABABABABBA", OrderKind.ONE_SIDED),
        ("AABBAABB", OrderKind.BLOCKS),
        ("AABB", OrderKind.SEQUENTIAL),
        ("AB", OrderKind.INTERLEAVED),
        (None, OrderKind.UNKNOWN),
    ],
)
def test_f7_what_an_order_is_worth(order: str | None, kind: OrderKind) -> None:
    judged = judge_order(order)
    assert judged.kind is kind
    assert bool(judged.words) == (kind is not OrderKind.INTERLEAVED)


@pytest.mark.parametrize("order", ["ABC", "AAB", "A B", "AABA"])
def test_what_is_no_order_is_refused(order: str) -> None:
    with pytest.raises(ValueError, match="use A and B alone"):
        judge_order(order)


def test_an_order_of_another_length_than_the_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="has 4 runs, but 6 pairs have 12"):
        judge(level(1, 6), level(1, 6), order="ABBA")


@pytest.mark.parametrize(("floor", "margin"), [(-0.1, None), (math.nan, None), (0.1, -1), (0.1, math.inf)])
def test_bounds_that_are_none_are_refused(floor: float, margin: float | None) -> None:
    with pytest.raises(ValueError, match="a relative difference of at least 0"):
        judge(level(1, 6), level(1, 6), floor=floor, margin=margin)


def test_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="confidence 1"):
        compare_pairs([(1, 1)], floor=None, seed=1, higher_is_better=True, confidence=1.0)


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_moments_and_slope_by_hand() -> None:
    found = side_figures([1.0, 3.0, 5.0, 7.0])
    assert (found.mean, found.median, found.slope, found.r) == (4.0, 4.0, 2.0, 1.0)
    assert found.sd == pytest.approx(math.sqrt(20 / 3))
    assert found.cv == pytest.approx(math.sqrt(20 / 3) / 4)
    alone, zero = side_figures([2.0]), side_figures([0.0, 0.0])
    assert (alone.sd, alone.slope, alone.r) == (0.0, None, None)
    assert (zero.cv, zero.r, zero.slope) == (None, None, 0.0)


def test_slope_and_r_are_those_of_numpy() -> None:
    values = level(100, 15, noise=0.1)
    found = side_figures(values)
    assert found.slope == pytest.approx(float(np.polyfit(range(15), values, 1)[0]))
    assert found.r == pytest.approx(float(np.corrcoef(range(15), values)[0, 1]))


def test_halves() -> None:
    assert half_medians([1.0, 2.0, 3.0, 4.0, 9.0]) == (1.5, 4.0)
    assert half_medians([1.0]) is None


def test_the_order_interval_is_the_sign_test_read_backwards() -> None:
    values = [float(k) for k in range(1, 13)]
    assert order_interval(values, 0.95) == Interval(3.0, 10.0)  # the textbook's for n = 12
    assert order_interval(values[:6], 0.95) == Interval(1.0, 6.0)
    assert order_interval(values[:5], 0.95) is None
    assert [fewest_pairs(each) for each in (0.5, 0.9, 0.95, 0.99)] == [2, 5, 6, 8]
    assert (sign_p_value(6, 0), sign_p_value(3, 3), sign_p_value(0, 0)) == (2 / 64, 1.0, 1.0)
    assert sign_p_value(10, 2) == 2 * (1 + 12 + 66) / 2**12


def test_the_bootstrap_repeats_and_lies_within_the_values() -> None:
    values = level(100, 15, noise=0.1)
    found = median_interval(values, seed=7, resamples=2_000, confidence=0.95)
    assert found == median_interval(values, seed=7, resamples=2_000, confidence=0.95)
    assert min(values) <= found.low < found.high <= max(values)
    assert found.lies_within(median_interval(values, seed=7, resamples=2_000, confidence=0.99))


def test_a_verdict_goes_through_a_file_and_comes_back_equal() -> None:
    found = judge(level(100), level(110, seed=2), margin=0.05)
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(found)), PairedVerdict) == found
