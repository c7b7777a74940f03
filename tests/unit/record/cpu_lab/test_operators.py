from pathlib import Path

import pytest
from msgspec.structs import replace

from arriero.core.errors import DataError
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.operators import Arm, OperatorProfile, PhaseProfile, read_operators, write_operators
from tests.unit.record.cpu_lab.operator_files import host_split, phase, profile, roofline


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "operators.json"


def with_phase(changed: PhaseProfile) -> OperatorProfile:
    return replace(profile(), phases=(phase("prefill"), changed))


def test_what_is_written_is_read_again_byte_by_byte(path: Path) -> None:
    write_operators(path, profile())
    text = path.read_bytes()
    result = read_operators(path)
    assert result == profile()
    write_operators(path, result)
    assert path.read_bytes() == text


def test_every_call_is_in_the_file_and_every_kind_of_figure_has_its_label(path: Path) -> None:
    write_operators(path, profile())
    text = path.read_text()
    assert "[100000,102000]" in text
    assert text.count('"evidence":"PROFILED"') == 2  # operators, and the host's part
    assert '"evidence":"MEASURED"' in text
    assert '"ceilings_evidence":"MICROBENCHMARK"' in text


def test_an_operator_profile_is_never_called_measured(path: Path) -> None:
    with pytest.raises(DataError, match="evidence: MEASURED is not what a profile gives; it is PROFILED"):
        write_operators(path, replace(profile(), evidence=Evidence.MEASURED))


def test_ceilings_are_never_called_measured_on_a_program(path: Path) -> None:
    pooled = replace(roofline(), ceilings_evidence=Evidence.END_TO_END)
    with pytest.raises(DataError, match=r"roofline\.ceilings_evidence: END-TO-END is not"):
        write_operators(path, replace(profile(), roofline=pooled))
    with pytest.raises(DataError, match=r"host\.evidence: SIMULATED is not"):
        write_operators(path, replace(profile(), host=replace(host_split(), evidence=Evidence.SIMULATED)))


def test_nodes_out_of_order_are_refused(path: Path) -> None:
    decode = phase("decode")
    with pytest.raises(DataError, match=r"phases\[1\]\.nodes: are not counted from 0"):
        write_operators(path, with_phase(replace(decode, nodes=decode.nodes[::-1])))


def test_a_method_without_times_is_refused(path: Path) -> None:
    decode = phase("decode")
    without = tuple(replace(node, stamped=None) for node in decode.nodes)
    with pytest.raises(DataError, match=r"phases\[1\]\.method: no node has a time by stamped"):
        write_operators(path, with_phase(replace(decode, nodes=without)))


def test_bare_calls_come_first(path: Path) -> None:
    decode = phase("decode")
    with pytest.raises(DataError, match=r"phases\[1\]\.arms: bare comes first"):
        write_operators(path, with_phase(replace(decode, arms=decode.arms[::-1])))


def test_an_unknown_field_is_one_line(path: Path) -> None:
    write_operators(path, profile())
    path.write_text(path.read_text().replace('"dropped":0', '"dropping":0', 1))
    with pytest.raises(DataError, match=r"missing|unknown field") as caught:
        read_operators(path)
    assert "\n" not in str(caught.value)


def test_a_phase_or_an_arm_that_is_not_there_is_none() -> None:
    only = replace(profile(), phases=(phase("decode"),))
    assert only.phase("prefill") is None
    assert only.phases[0].arm(Arm.APART) is not None
    assert replace(only.phases[0], arms=only.phases[0].arms[:1]).arm(Arm.APART) is None
