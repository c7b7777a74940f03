from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from arriero.core.errors import DataError
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.granularity import (
    GranularityResult,
    price_of,
    quartiles,
    read_granularity,
    write_granularity,
)
from tests.unit.record.cpu_lab.operator_files import granularity, packet_arm, packets_phase


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "granularity.json"


def test_what_is_written_is_read_again_byte_by_byte(path: Path) -> None:
    write_granularity(path, granularity())
    text = path.read_bytes()
    result = read_granularity(path)
    assert result == granularity()
    write_granularity(path, result)
    assert path.read_bytes() == text


def test_the_price_is_taken_call_by_call() -> None:
    whole, arm = packet_arm(None, 5, (100, 1_000, 10_000)), packet_arm(1, 5, (140, 1_040, 10_040))
    price = price_of(arm, whole, 1)
    assert price.extra_ns == 40
    assert price.cut_ns == price.cut_low_ns == price.cut_high_ns == 10
    assert price.slowdown == pytest.approx(0.04)
    assert price.step_ns == 1_040


def test_a_graph_in_one_piece_has_no_cut() -> None:
    whole = packet_arm(None, 5, (100, 200))
    price = price_of(whole, whole, 1)
    assert (price.extra_ns, price.slowdown, price.cut_ns) == (0, 0, None)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=20), st.integers(0, 10**6), st.integers(2, 50))
def test_a_constant_price_is_found_whatever_the_calls_take(times: list[int], cut: int, num_nodes: int) -> None:
    whole = packet_arm(None, num_nodes, times)
    arm = packet_arm(1, num_nodes, [each + cut * (num_nodes - 1) for each in times])
    price = price_of(arm, whole, 1)
    assert price.cut_ns == pytest.approx(cut)


def test_a_difference_of_one_sign_in_six_repetitions_is_resolved() -> None:
    whole = packet_arm(None, 5, (1_000,) * 12)
    slower = packet_arm(1, 5, (1_010, 1_030, 1_020, 1_005, 1_001, 1_100) * 2)
    assert price_of(slower, whole, 6).is_resolved
    assert not price_of(slower, whole, 4).is_resolved  # too few to be sure of anything
    mixed = packet_arm(1, 5, (990, 985, 1_020, 1_005, 1_001, 1_100) * 2)
    assert not price_of(mixed, whole, 6).is_resolved


def test_calls_of_one_repetition_are_one_sample() -> None:
    """Forty calls in two repetitions, one of them slow throughout, prove nothing."""
    whole = packet_arm(None, 5, (1_000,) * 40)
    assert not price_of(packet_arm(1, 5, (1_001,) * 20 + (1_500,) * 20), whole, 2).is_resolved


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=30))
def test_quartiles_lie_among_the_values(values: list[int]) -> None:
    low, high = quartiles(values)
    assert min(values) <= low <= high <= max(values)


def _refused(result: GranularityResult, path: Path, match: str) -> None:
    with pytest.raises(DataError, match=match):
        write_granularity(path, result)


def test_what_does_not_fit_is_refused(path: Path) -> None:
    result, phase = granularity(), packets_phase("prefill")
    _refused(replace(result, evidence=Evidence.MEASURED), path, "evidence: MEASURED is not what packets give")
    _refused(
        replace(result, phases=(replace(phase, arms=phase.arms[1:]),)),
        path,
        r"phases\[0\]\.arms: the whole graph comes",
    )
    arms = (phase.arms[0], replace(phase.arms[1], num_packets=3))
    _refused(
        replace(result, phases=(replace(phase, arms=arms),)), path, r"phases\[0\]\.arms\[1\]: its packets or calls"
    )
    arms = (phase.arms[0], replace(phase.arms[1], ns=(1, 2)))
    _refused(
        replace(result, phases=(replace(phase, arms=arms),)), path, r"phases\[0\]\.arms\[1\]: its packets or calls"
    )
