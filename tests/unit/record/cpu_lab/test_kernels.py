from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.kernels import GateRow, KernelsResult
from arriero.record.cpu_lab.kernels_file import read_kernels, write_kernels
from tests.unit.record.cpu_lab.kernel_files import candidate, kernels_result, skipped, timed_size


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kernels.json"


def changed(result: KernelsResult, **fields: object) -> KernelsResult:
    """The same with other fields of its first candidate."""
    first = msgspec.structs.replace(result.candidates[0], **fields)
    return msgspec.structs.replace(result, candidates=(first, *result.candidates[1:]))


def test_what_is_written_is_read_again_byte_by_byte(path: Path) -> None:
    write_kernels(path, kernels_result())
    text = path.read_bytes()
    result = read_kernels(path)
    assert result == kernels_result()
    write_kernels(path, result)
    assert path.read_bytes() == text


def test_every_time_is_in_the_file_and_every_label(path: Path) -> None:
    write_kernels(path, kernels_result())
    text = path.read_text()
    assert "[2000,2100,2050]" in text
    assert '"evidence":"MICROBENCHMARK"' in text


def test_another_label_is_refused(path: Path) -> None:
    with pytest.raises(DataError, match="evidence: END-TO-END is not what a workbench gives"):
        write_kernels(path, msgspec.structs.replace(kernels_result(), evidence=Evidence.END_TO_END))


def test_a_median_that_the_times_do_not_give_is_refused(path: Path) -> None:
    write_kernels(path, kernels_result())
    median = timed_size().kernels[1].figures.median_ns
    text = path.read_text()
    assert text.count(f'"median_ns":{median}') == 1
    path.write_text(text.replace(f'"median_ns":{median}', '"median_ns":55.0'))
    complaint = r"candidates\[0\]\.sizes\[0\]\.kernels\[1\]\.median_ns: 55\.0 does not follow from the times"
    with pytest.raises(DataError, match=complaint):
        read_kernels(path)


def test_a_ratio_of_other_times_is_refused(path: Path) -> None:
    size = msgspec.structs.replace(timed_size(), ratio=timed_size(faster=3.0).ratio)
    with pytest.raises(DataError, match=r"sizes\[0\]\.ratio\.value"):
        write_kernels(path, changed(kernels_result(), sizes=(size,)))


def test_a_candidate_never_goes_on_after_a_failed_gate(path: Path) -> None:
    gates = (GateRow(name="a", passed=False, says="no"), GateRow(name="b", passed=True, says="yes"))
    with pytest.raises(DataError, match=r"candidates\[0\]\.gates: goes on after a failed gate"):
        write_kernels(path, changed(kernels_result(), gates=gates))


def test_times_of_what_was_skipped_are_refused(path: Path) -> None:
    with pytest.raises(DataError, match="times of what was skipped"):
        write_kernels(path, changed(kernels_result(), skipped="no reason"))


def test_the_pair_comes_first(path: Path) -> None:
    size = timed_size()
    wrong = msgspec.structs.replace(size, kernels=tuple(reversed(size.kernels)))
    with pytest.raises(DataError, match="baseline and candidate come first"):
        write_kernels(path, changed(kernels_result(), sizes=(wrong,)))


def test_verdicts() -> None:
    assert candidate().verdict == "passed"
    assert candidate(passed=False).verdict == "rejected"
    assert skipped().verdict == "skipped"
