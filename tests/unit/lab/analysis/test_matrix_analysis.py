"""From records of matrices to one analysis."""

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.lab.analysis.matrix_analysis import NamedRun, analyse
from arriero.lab.analysis.records import SMOKE_WARNING, rows_of
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixRecord
from arriero.record.cpu_lab.run_log import Status
from tests.unit.lab.analysis.matrix_rows import conditions, record, stored


def named(*records: MatrixRecord, name: str = "folder", run_id: str = "run") -> NamedRun:
    return NamedRun(name=name, sha256="5" * 64, run=stored(*records, run_id=run_id))


def test_the_latest_record_of_an_invocation_counts_in_every_analysis() -> None:
    # published: the first one in one summary, all of them in another, the latest in the runner
    failed = record(status=Status.FAILED)
    retried = record(100.0)
    again = record(300.0)
    found = analyse([named(failed, retried, again)])
    assert [group.prefill.mean for group in found.groups if group.prefill] == [300.0]
    assert found.sources[0].statuses == {"success": 1}
    assert not found.excluded


def test_warm_ups_and_failures_are_in_no_figure_and_counted() -> None:
    found = analyse([
        named(
            record(1.0, phase="warmup"),
            record(repetition=1),
            record(repetition=2, status=Status.TIMED_OUT),
            record(repetition=3, status=Status.PARSE_ERROR),
            record(repetition=4, status=Status.FAILED),
        )
    ])
    assert found.excluded == {"warm-up": 1, "timed_out": 1, "parse_error": 1, "failed": 1}
    assert [group.prefill.n for group in found.groups if group.prefill] == [1]


def test_what_was_measured_otherwise_than_asked_is_malformed() -> None:
    right = record(repetition=1)
    wrong = record(repetition=2)
    results = tuple(msgspec.structs.replace(each, thread_count=4) for each in wrong.parsed_results)
    other = record(repetition=2, parsed_results=results)
    none = record(repetition=3, parsed_results=())
    found = analyse([named(right, other, none)])
    assert found.excluded == {"malformed": 2}
    assert "measured with 4 threads instead of 1" in found.warnings[0]
    assert "0 results instead of one" in found.warnings[1]


def test_a_folder_given_twice_counts_once() -> None:
    found = analyse([named(record()), named(record(), name="copy")])
    assert [group.prefill.n for group in found.groups if group.prefill] == [1]
    assert found.warnings[0].startswith("1 of 2 folders hold a run that another one holds")


def test_two_runs_are_read_together() -> None:
    found = analyse([named(record(threads=1)), named(record(threads=2, run_id="b"), name="other", run_id="b")])
    assert [source.name for source in found.sources] == ["folder", "other"]
    assert len(found.threads) == 2


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(DataError, match="no measured repetition has succeeded"):
        analyse([named(record(status=Status.FAILED))])


def test_parsed_captures_and_busy_neighbours_are_told() -> None:
    rows = rows_of([record(executor=ExecutorKind.SMOKE), record(repetition=2, after=conditions(1.5))])
    assert rows.warnings == (SMOKE_WARNING, "1 invocation of 2 ran beside others that kept more than 0.25 cores busy")
    rows = rows_of([record(after=conditions(None))])
    assert rows.warnings == ("what others did is not known around 1 invocation of 1",)


def test_matrices_of_one_thing_have_no_comparisons() -> None:
    found = analyse([named(record())])
    assert (found.threads, found.lengths, found.formats, found.kv) == ((), (), None, None)
