"""What the fit finds, where it is known what there is to find."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arriero.backend.protocol import BackendLimits
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import TERMS, PassCosts
from arriero.costmodel.tiles import UNCUT, Tiles
from arriero.engine.pass_rules import rules_of
from arriero.lab.fit import fit_passes, step_amounts
from arriero.lab.nonnegative import Floats, solve_nonnegative
from arriero.lab.shapes import Design
from arriero.lab.stand import Sample

# Magnitudes of a small model on a slow CPU, microseconds.
LIKELY = PassCosts.of({
    "pass": 3000, "build": 1000, "rows_0": 2000, "rows_16": 1600, "rows_64": 1500, "rows_256": 1500, "fours": 800,
    "singles": 1500, "ragged": 900, "stream": 300, "cell": 5, "one_key": 20, "one_scan": 0.1, "few_key": 24,
    "few_scan": 0.1, "many_key": 2.2,
    "many_scan": 0.05, "logits": 500, "logit_row": 900,
    "logit_single": 400,
})  # fmt: skip


def limits(*, unified: bool = False, num_sequences: int = 8) -> BackendLimits:
    return BackendLimits(
        num_sequences=num_sequences,
        num_rows=512,
        micro_batch=512,
        num_cells=2048 * num_sequences,
        sequence_limit=2048 * num_sequences if unified else 2048,
        unified=unified,
        vocab_size=100,
    )


def measured(
    costs: PassCosts, context: BackendLimits, *, noise: float, far: float = 0.0, visits: int = 5, seed: int = 0
) -> list[Sample]:
    """Steps of the design on a machine with these costs; a share `far` takes ten times as long."""
    rng, rules = np.random.default_rng(seed), rules_of(context)
    found: list[Sample] = []
    probes = Design(context).probes()
    for place in (place for _ in range(visits) for place in rng.permutation(len(probes))):
        probe = probes[place]
        for number in range(probe.repeats):
            rows = tuple(row._replace(start=row.start + number * row.num_rows) for row in probe.rows)
            pool = sum(row.start for row in rows) + sum(held for _, held in probe.others)
            sample = Sample(probe, rows, pool if context.unified else 0, number == 0, 0.0, 0.0)
            disturbed = 10 if rng.random() < far else 1
            took = float(step_amounts(sample, rules) @ np.array(costs.values)) * np.exp(noise * rng.standard_normal())
            found.append(sample._replace(decode_us=took * disturbed))
    return found


def errors(found: PassCosts, planted: PassCosts, samples: Sequence[Sample], rules: PassRules) -> Floats:
    """Relative errors over all shapes, the held-out ones included."""
    matrix = np.array([step_amounts(sample, rules) for sample in samples])
    wrong: Floats = (matrix @ np.array(found.values)) / (matrix @ np.array(planted.values)) - 1
    return np.abs(wrong)


costs = st.lists(st.floats(0.2, 5.0), min_size=len(TERMS), max_size=len(TERMS)).map(
    lambda factors: PassCosts(tuple(a * b for a, b in zip(LIKELY.values, factors, strict=True)))
)


@settings(max_examples=20)
@given(costs)
def test_without_noise_every_coefficient_is_found(planted: PassCosts) -> None:
    samples = measured(planted, limits(), noise=0.0, visits=1)
    found = fit_passes(samples, rules_of(limits())).costs
    assert found.values == pytest.approx(planted.values, rel=1e-3, abs=1e-3)


@settings(max_examples=20)
@given(costs, st.integers(0, 10_000), st.sampled_from([0.02, 0.05]), st.booleans())
def test_planted_costs_are_found_within_the_noise(planted: PassCosts, seed: int, noise: float, unified: bool) -> None:  # noqa: FBT001
    context = limits(unified=unified)
    samples = measured(planted, context, noise=noise, seed=seed)
    wrong = errors(fit_passes(samples, rules_of(context)).costs, planted, samples, rules_of(context))
    assert np.median(wrong) < 0.5 * noise
    assert np.quantile(wrong, 0.9) < noise


@settings(max_examples=20)
@given(costs, st.integers(0, 10_000))
def test_a_tenth_of_the_steps_may_take_ten_times_as_long(planted: PassCosts, seed: int) -> None:
    noise, rules = 0.03, rules_of(limits())
    clean = measured(planted, limits(), noise=noise, seed=seed)
    rng = np.random.default_rng(seed + 1)
    disturbed = [sample._replace(decode_us=sample.decode_us * (10 if rng.random() < 0.1 else 1)) for sample in clean]
    wrong = errors(fit_passes(disturbed, rules).costs, planted, clean, rules)
    assert np.median(wrong) < 0.5 * noise
    assert np.quantile(wrong, 0.9) < noise


def test_even_a_third_of_the_steps_may_be_disturbed() -> None:
    rules = rules_of(limits())
    clean = measured(LIKELY, limits(), noise=0.03)
    for times in (2, 10):
        rng = np.random.default_rng(times)
        disturbed = [
            sample._replace(decode_us=sample.decode_us * (times if rng.random() < 0.3 else 1)) for sample in clean
        ]
        assert np.quantile(errors(fit_passes(disturbed, rules).costs, LIKELY, clean, rules), 0.9) < 0.03


def test_a_shape_counts_the_same_however_often_it_was_visited() -> None:
    rules = rules_of(limits())
    samples = measured(LIKELY, limits(), noise=0.05)
    often = [sample for sample in samples if sample.probe.name == "decode 8, near"] * 50
    once = errors(fit_passes(samples, rules).costs, LIKELY, samples, rules)
    many = errors(fit_passes(samples + often, rules).costs, LIKELY, samples, rules)
    assert many == pytest.approx(once, abs=0.012), "but for the usual speed, which noise of 5 % tells to a hundredth"


def test_one_sequence_is_enough() -> None:
    context = limits(num_sequences=1)
    samples = measured(LIKELY, context, noise=0.02)
    wrong = errors(fit_passes(samples, rules_of(context)).costs, LIKELY, samples, rules_of(context))
    assert np.quantile(wrong, 0.9) < 0.03


@given(st.integers(1, 6), st.integers(0, 10_000))
def test_no_coefficient_is_negative_and_none_could_be_better(num_unknowns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, target = rng.standard_normal((12, num_unknowns)), rng.standard_normal(12)
    found = solve_nonnegative(matrix, target)
    slope = matrix.T @ (target - matrix @ found)
    assert (found >= 0).all()
    # the conditions of an optimum: no slope upward anywhere, and none at all where there is room below
    assert (slope < 1e-6).all()
    assert np.abs(slope[found > 0]).max(initial=0) < 1e-6


def test_columns_without_a_say_get_nothing() -> None:
    matrix = np.array([[1.0, 0.0], [2.0, 0.0]])
    assert solve_nonnegative(matrix, np.array([2.0, 4.0])).tolist() == pytest.approx([2.0, 0.0])
    assert solve_nonnegative(np.zeros((2, 0)), np.array([1.0, 2.0])).tolist() == []


@settings(max_examples=20)
@given(costs, st.integers(0, 10_000), st.floats(1.1, 1.6))
def test_a_machine_with_two_speeds_is_told_from_what_shapes_cost(planted: PassCosts, seed: int, slow: float) -> None:
    """It changes its speed a few times; each shape is measured at one speed more often than at the other."""
    noise, rules = 0.02, rules_of(limits())
    clean = measured(planted, limits(), noise=noise, seed=seed)
    rng = np.random.default_rng(seed + 1)
    changes = np.sort(rng.integers(0, len(clean), 5))
    speeds = [slow if np.searchsorted(changes, place) % 2 else 1.0 for place in range(len(clean))]
    found = fit_passes([s._replace(decode_us=s.decode_us * v) for s, v in zip(clean, speeds, strict=True)], rules)
    matrix = np.array([step_amounts(sample, rules) for sample in clean])
    ratio = (matrix @ np.array(found.costs.values)) / (matrix @ np.array(planted.values))
    usual = np.median(ratio)
    assert 0.97 < usual < slow * 1.03, "the usual speed is one of those that it had"
    assert np.quantile(np.abs(ratio / usual - 1), 0.9) < 1.5 * noise
    level = found.level * usual
    assert np.median(np.abs(level / np.array(speeds) - 1)) < noise


def test_a_steady_machine_has_one_speed() -> None:
    found = fit_passes(measured(LIKELY, limits(), noise=0.02), rules_of(limits()))
    assert found.late < 0.02
    assert np.abs(found.level - 1).max() < 0.03


def test_heads_that_chunks_cut_are_in_the_fit() -> None:
    """Nine heads of 64 rows on two threads compute 16 tiles instead of 9; who does not know it is far off there."""
    knowing = replace(rules_of(limits()), tiled_heads=9)
    tiles = Tiles(9, 2)
    samples = [
        sample._replace(decode_us=float(step_amounts(sample, knowing, tiles) @ np.array(LIKELY.values)))
        for sample in measured(LIKELY, limits(), noise=0.0, visits=2)
    ]
    told, untold = fit_passes(samples, knowing, 2).costs, fit_passes(samples, rules_of(limits()), 2).costs
    assert told.values == pytest.approx(LIKELY.values, rel=1e-3, abs=1e-3)
    assert told.tiles == tiles
    deep = [sample for sample in samples if sample.probe.name == "prefill 64, deep"]
    matrix = np.array([step_amounts(sample, knowing, UNCUT) for sample in deep])
    assert abs(matrix @ np.array(untold.values) / [sample.decode_us for sample in deep] - 1).min() > 0.05
