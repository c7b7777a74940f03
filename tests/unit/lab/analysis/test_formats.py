"""Model files side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from arriero.lab.analysis.formats import compare_formats
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.analysis import Group, Phase, Quality
from tests.unit.lab.analysis.matrix_rows import SHA, groups, row


def quality(kl: float | None) -> Quality:
    return Quality(
        reference="f16", kl_mean=kl, kl_high=None, perplexity=10.0, perplexity_ratio=1.01, perplexity_ratio_high=None,
        agreement=None, evidence=Evidence.MEASURED,
    )  # fmt: skip


def test_ratios_are_taken_at_the_very_same_workload_only() -> None:
    found = compare_formats(
        groups(
            row(200.0, 10.0, weights="F16", threads=1),
            row(100.0, 20.0, weights="Q4_0", threads=1),
            row(150.0, 30.0, weights="Q4_0", threads=2),
        ),
        {},
    )
    assert found is not None
    assert found.reference == "f16 (F16)"
    ratios = [(cell.prefill_ratio, cell.decode_ratio) for cell in found.cells]
    assert ratios == [(1.0, 1.0), (0.5, 2.0), (None, None)]
    assert [cell.reason for cell in found.cells] == [None, None, "the reference was not measured at this workload"]
    files = {file.weights: file for file in found.files}
    assert files["Q4_0"].size_ratio == pytest.approx(0.25)
    assert files["Q4_0"].reduction == pytest.approx(0.75)


@pytest.mark.parametrize("name", ["batch_size", "micro_batch", "prompt_tokens", "kv_key", "library", "machine"])
def test_a_workload_that_differs_in_anything_is_another_one(name: str) -> None:
    other: dict[str, Any] = {name: "q8_0" if name in {"kv_key", "library", "machine"} else 64}
    found = compare_formats(groups(row(weights="F16"), row(weights="Q4_0", **other)), {})
    assert found is not None
    assert found.cells[1].prefill_ratio is None


def test_without_the_reference_there_are_no_ratios_and_the_reason_is_said() -> None:
    found = compare_formats(groups(row(weights="Q8_0"), row(weights="Q4_0")), {})
    assert found is not None
    assert found.reference is None
    assert found.reason is not None
    assert "no file is F16" in found.reason
    assert all(cell.decode_ratio is None and cell.reason for cell in found.cells)
    named = compare_formats(groups(row(weights="Q8_0"), row(weights="Q4_0")), {}, "q8_0")
    assert named is not None
    assert named.reference == "q8_0 (Q8_0)"


def test_two_files_of_the_reference_format_are_not_chosen_between() -> None:
    rows = [row(weights="F16"), row(weights="F16", model="other", model_sha256="7" * 64), row(weights="Q4_0")]
    found = compare_formats(groups(*rows), {})
    assert found is not None
    assert found.reason is not None
    assert "name one of them" in found.reason
    by_name = compare_formats(groups(*rows), {}, "other")
    assert by_name is not None
    assert by_name.reference == "other (F16)"


def test_one_file_is_no_comparison() -> None:
    assert compare_formats(groups(row(threads=1), row(threads=2)), {}) is None


def decoded(wobble: float) -> tuple[Group, ...]:
    """Four files, each measured twice, as far from its mean as this."""
    rates = {"F16": 10.0, "Q8_0": 15.0, "Q4_0": 14.0, "Q4_K_M": 13.0}
    return groups(*(
        row(100.0, rate + sign * wobble, repetition, weights=weights)
        for weights, rate in rates.items()
        for repetition, sign in ((1, -1), (2, 1))
    ))  # fmt: skip


def on_decode_front(measured: Sequence[Group], kls: Mapping[str, float]) -> dict[str, bool]:
    found = compare_formats(measured, {SHA[name]: quality(kl) for name, kl in kls.items()})
    assert found is not None
    return {point.key.weights: point.on_front for point in found.pareto if point.phase is Phase.DECODE}


def test_the_front_is_of_speed_and_size_and_of_quality_where_all_have_it() -> None:
    bare = on_decode_front(decoded(0.25), {"F16": 0.0})
    assert bare == {"F16": False, "Q8_0": True, "Q4_0": True, "Q4_K_M": False}
    kls = {"F16": 0.0, "Q8_0": 0.001, "Q4_0": 0.1, "Q4_K_M": 0.05}
    assert on_decode_front(decoded(0.25), kls) == {"F16": True, "Q8_0": True, "Q4_0": True, "Q4_K_M": True}
    whole = compare_formats(decoded(0.25), {SHA[name]: quality(kl) for name, kl in kls.items()})
    assert whole is not None
    assert {file.weights: file.quality and file.quality.kl_mean for file in whole.files} == kls


def test_a_file_within_the_repetitions_of_another_one_is_not_beaten() -> None:
    assert on_decode_front(decoded(1.0), {}) == {"F16": False, "Q8_0": True, "Q4_0": True, "Q4_K_M": True}
    assert on_decode_front(decoded(3.0), {}) == {"F16": True, "Q8_0": True, "Q4_0": True, "Q4_K_M": True}


def test_a_file_that_was_measured_once_is_not_beaten() -> None:
    once = groups(row(200.0, 10.0, weights="F16"), row(100.0, 20.0, weights="Q4_0"))
    assert on_decode_front(once, {}) == {"F16": True, "Q4_0": True}
