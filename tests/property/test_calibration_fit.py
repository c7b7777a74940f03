"""What the fit finds, where it is known what there is to find."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arriero.backend.protocol import BackendLimits
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import TERMS, PassCosts
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
    for probe in Design(context).probes() * visits:
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
    found = fit_passes(samples, rules_of(limits()))
    assert found.values == pytest.approx(planted.values, rel=1e-3, abs=1e-3)


@settings(max_examples=20)
@given(costs, st.integers(0, 10_000), st.sampled_from([0.02, 0.05]), st.booleans())
def test_planted_costs_are_found_within_the_noise(planted: PassCosts, seed: int, noise: float, unified: bool) -> None:  # noqa: FBT001
    context = limits(unified=unified)
    samples = measured(planted, context, noise=noise, seed=seed)
    wrong = errors(fit_passes(samples, rules_of(context)), planted, samples, rules_of(context))
    assert np.median(wrong) < 0.5 * noise
    assert np.quantile(wrong, 0.9) < noise


@settings(max_examples=20)
@given(costs, st.integers(0, 10_000))
def test_a_tenth_of_the_steps_may_take_ten_times_as_long(planted: PassCosts, seed: int) -> None:
    noise, rules = 0.03, rules_of(limits())
    clean = measured(planted, limits(), noise=noise, seed=seed)
    rng = np.random.default_rng(seed + 1)
    disturbed = [sample._replace(decode_us=sample.decode_us * (10 if rng.random() < 0.1 else 1)) for sample in clean]
    wrong = errors(fit_passes(disturbed, rules), planted, clean, rules)
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
        assert np.quantile(errors(fit_passes(disturbed, rules), LIKELY, clean, rules), 0.9) < 0.03


def test_a_shape_counts_the_same_however_often_it_was_visited() -> None:
    rules = rules_of(limits())
    samples = measured(LIKELY, limits(), noise=0.05)
    often = [sample for sample in samples if sample.probe.name == "decode 8, near"] * 50
    once = errors(fit_passes(samples, rules), LIKELY, samples, rules)
    many = errors(fit_passes(samples + often, rules), LIKELY, samples, rules)
    assert many == pytest.approx(once, abs=1e-3)


def test_one_sequence_is_enough() -> None:
    context = limits(num_sequences=1)
    samples = measured(LIKELY, context, noise=0.02)
    wrong = errors(fit_passes(samples, rules_of(context)), LIKELY, samples, rules_of(context))
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
