"""Baseline, threads and lengths."""

import pytest

from arriero.lab.analysis.groups import cv_extremes
from arriero.lab.analysis.scaling import length_curves, thread_curves
from arriero.record.cpu_lab.analysis import Phase
from tests.unit.lab.analysis.matrix_rows import groups, row


def test_speedup_is_of_means_and_efficiency_of_threads() -> None:
    # the published prefill at 128 tokens: 48.81 / 86.26 / 133.03 / 164.52 with 1 / 2 / 4 / 8 threads
    rates = {1: 48.81, 2: 86.26, 4: 133.03, 8: 164.52}
    curves = thread_curves(groups(*(row(rate, threads=threads) for threads, rate in rates.items())))
    prefill = curves[0]
    assert (prefill.phase, prefill.reason) == (Phase.PREFILL, None)
    assert [point.threads for point in prefill.points] == [1, 2, 4, 8]
    assert prefill.points[-1].speedup == pytest.approx(3.371, abs=5e-4)
    assert prefill.points[-1].efficiency == pytest.approx(0.421, abs=5e-4)
    assert prefill.points[0].speedup == prefill.points[0].efficiency == 1.0


def test_without_a_one_thread_row_there_is_no_speedup_and_never_0() -> None:
    curve = thread_curves(groups(row(threads=2), row(threads=4)))[0]
    assert [(point.speedup, point.efficiency) for point in curve.points] == [(None, None), (None, None)]
    assert curve.reason is not None
    assert "one thread" in curve.reason


def test_curves_hold_everything_else_models_and_kv_types_too() -> None:
    rows = [
        row(threads=threads, weights=weights, kv_key=kv)
        for threads in (1, 2)
        for weights in ("Q4_0", "Q8_0")
        for kv in ("f16", "q8_0")
    ]
    curves = thread_curves(groups(*rows))
    assert len(curves) == 2 * 2 * 2
    assert all(len(curve.points) == 2 for curve in curves)


def test_where_both_numbers_differ_the_other_one_is_held() -> None:
    rows = [row(threads=decode, batch_threads=prefill) for decode in (1, 2) for prefill in (1, 2)]
    found = [
        (curve.phase, curve.key.threads, curve.key.batch_threads, [point.threads for point in curve.points])
        for curve in thread_curves(groups(*rows))
    ]
    both = [1, 2]
    assert found == [
        (Phase.PREFILL, 1, 1, both), (Phase.PREFILL, 1, 1, both), (Phase.PREFILL, 2, 1, both),
        (Phase.DECODE, 1, 1, both), (Phase.DECODE, 1, 1, both), (Phase.DECODE, 1, 2, both),
    ]  # fmt: skip


def test_lengths_at_one_context_and_at_one_depth_are_different_questions() -> None:
    one_context = length_curves(groups(row(prompt_tokens=32), row(prompt_tokens=128)))
    assert [(curve.phase, curve.holds, [point.depth for point in curve.points]) for curve in one_context] == [
        (Phase.PREFILL, "context", [448, 352])
    ]
    rows = [row(prompt_tokens=prompt, context_size=prompt + 32) for prompt in (32, 128)]
    one_depth = length_curves(groups(*rows))
    assert [(curve.phase, curve.holds, [point.depth for point in curve.points]) for curve in one_depth] == [
        (Phase.PREFILL, "depth", [0, 0])
    ]


def test_decode_is_looked_at_over_answers() -> None:
    curves = length_curves(groups(row(generated_tokens=16), row(generated_tokens=64)))
    assert [(curve.phase, [point.tokens for point in curve.points]) for curve in curves] == [(Phase.DECODE, [16, 64])]


def test_extremes_of_the_cv_name_their_setting() -> None:
    steady = [row(100.0, repetition=number, threads=1) for number in (1, 2)]
    unsteady = [row(90.0 + 20 * number, repetition=number, threads=2) for number in (1, 2)]
    alone = row(5.0, threads=4)
    found = {(each.metric, each.key.threads): each.cv for each in cv_extremes(groups(*steady, *unsteady, alone))}
    assert found["prefill", 1] == 0.0
    assert found["prefill", 2] == pytest.approx(200**0.5 / 120)
    assert not any(threads == 4 for _, threads in found)
