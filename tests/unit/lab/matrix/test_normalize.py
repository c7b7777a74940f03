"""The table of a run: 27 columns, complete or labelled, the same every time."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import DataError
from arriero.lab.matrix.normalize import normalize, write_normalized
from arriero.lab.matrix.session import SessionOptions, run_matrix
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.matrix import MatrixRecord
from arriero.record.cpu_lab.normalized import COLUMNS, INCOMPLETE, NormalizedFile, csv_text
from arriero.record.cpu_lab.run_log import LINES, JsonValue, RunLog, read_run
from arriero.testing.fake_bench import Mode
from tests.unit.lab.matrix.matrices import AROUND, cases, fake_plan, ignore

PUBLISHED_COLUMNS = """\
timestamp_utc, model_logical_id, model_filename, quantization, model_sha256, model_file_size, invocation_id, \
model_name, model_size, backend, thread_count, prompt_tokens, generated_tokens, prompt_tokens_per_second, \
generation_tokens_per_second, test_identifier, batch_size, ubatch_size, context_size, kv_key_type, kv_value_type, \
repetition, elapsed_seconds, peak_rss_kib, reported_kv_cache_bytes, memory_measurement_source, mmap_enabled"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two cases, one of which fails the first time; nobody changes it."""
    folder = tmp_path_factory.mktemp("kept")
    plan = fake_plan(folder, {"p64-n8-t2": Mode.EXIT_ONCE}, matrix=cases(64))
    run_matrix(plan, folder / "run", AROUND, ignore, SessionOptions(sync=False))
    return folder / "run"


@pytest.fixture
def run(kept: Path, tmp_path: Path) -> Path:
    """A copy of that run: a run may move."""
    return shutil.copytree(kept, tmp_path / "copy")


def table(folder: Path) -> list[dict[str, str]]:
    text = (folder / "normalized.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text.removeprefix(f"{INCOMPLETE}\n"))))


def test_the_columns_are_the_published_27(run: Path) -> None:
    write_normalized(run, partial=False)
    header = (run / "normalized.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header.split(",") == PUBLISHED_COLUMNS.split(", ") == list(COLUMNS)
    assert len(COLUMNS) == 27


def test_rows_are_measured_successes_alone_and_empty_cells_have_a_reason(run: Path) -> None:
    written = write_normalized(run, partial=False)
    rows = table(run)
    assert len(rows) == 4, "the warm-up is what failed, and no warm-up is a row"
    assert {row["reported_kv_cache_bytes"] for row in rows} == {""}
    assert all("reported_kv_cache_bytes" in written.file.reasons[row["invocation_id"]] for row in rows)
    assert {row["mmap_enabled"] for row in rows} == {"true"}
    stored = json.loads((run / "normalized.json").read_bytes())
    assert stored["evidence"] == "MEASURED"
    assert msgspec.convert(stored, NormalizedFile) == written.file


def test_the_table_is_made_anew_from_the_records_alone(run: Path) -> None:
    write_normalized(run, partial=False)
    first = (run / "normalized.csv").read_bytes()
    (run / "normalized.csv").unlink()
    (run / "run-summary.json").unlink()
    write_normalized(run, partial=False)
    assert (run / "normalized.csv").read_bytes() == first


def test_a_partial_table_has_to_be_asked_for_and_says_so(run: Path) -> None:
    lines = (run / LINES).read_bytes().splitlines(keepends=True)
    (run / LINES).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(DataError, match="1 measured invocations have no record"):
        write_normalized(run, partial=False)
    assert not (run / "normalized.csv").exists()
    found = write_normalized(run, partial=True).file
    assert (found.incomplete, len(found.missing)) == (True, 1)
    assert (run / "normalized.csv").read_text(encoding="utf-8").startswith(f"{INCOMPLETE}\ntimestamp_utc,")


def test_failures_are_no_rows_are_listed_and_leave_the_table_complete(tmp_path: Path) -> None:
    plan = fake_plan(tmp_path, {"p64-n8-t2": Mode.MALFORMED}, matrix=cases(64))
    run_matrix(plan, tmp_path / "run", AROUND, ignore, SessionOptions(sync=False))
    found = write_normalized(tmp_path / "run", partial=False).file
    assert not found.incomplete
    assert len(found.rows) == 2
    assert [each.status for each in found.excluded] == ["parse_error", "parse_error"]
    assert "no number" in found.excluded[0].reason


def test_after_a_retry_the_latest_record_is_the_row(tmp_path: Path) -> None:
    """The published summaries took the first, or all of them."""
    plan = fake_plan(tmp_path, {"p64-n8-t1": Mode.EXIT_ONCE}, matrix=cases(64, threads=(1,)), warmup_runs=0)
    options = SessionOptions(resume=True, retry_failures=True, sync=False)
    for _ in range(2):
        run_matrix(plan, tmp_path / "run", AROUND, ignore, options)
    stored = read_run(tmp_path / "run", MatrixRecord)
    assert len(stored.records) == 3
    found = normalize(stored, folder="run")
    assert len(found.rows) == 2
    assert not found.excluded


def test_a_run_of_something_else_is_refused(run: Path) -> None:
    stored = read_run(run, MatrixRecord)
    for manifest in ({"schema": "another"}, {}, {**stored.manifest.manifest, "cases": [{"threads": 0}]}):
        other = msgspec.structs.replace(stored, manifest=msgspec.structs.replace(stored.manifest, manifest=manifest))
        with pytest.raises(DataError):
            normalize(other, folder="run")


def test_numbers_are_written_so_that_they_are_read_back_exactly(run: Path) -> None:
    file = normalize(read_run(run, MatrixRecord), folder="run")
    row = msgspec.structs.replace(file.rows[0], elapsed_seconds=0.1 + 0.2, prompt_tokens=None)
    (found,) = csv.DictReader(io.StringIO(csv_text(msgspec.structs.replace(file, rows=(row,)))))
    assert float(found["elapsed_seconds"]) == 0.1 + 0.2
    assert found["prompt_tokens"] == ""


def test_what_ran_on_a_captured_output_is_not_called_measured(tmp_path: Path) -> None:
    from arriero.lab.matrix.smoke import read_fixture

    path = tmp_path / "out.md"
    path.write_text(
        "| model | size | backend | threads | test | t/s |\n| m | s | CPU | 9 | pp1 | 1.0 ± 0 |\n", encoding="utf-8"
    )
    plan = replace(fake_plan(tmp_path, matrix=cases(64)), executor=read_fixture(path))
    run_matrix(plan, tmp_path / "smoke", AROUND, ignore, SessionOptions(sync=False))
    assert write_normalized(tmp_path / "smoke", partial=False).file.evidence == "SIMULATED"


def test_a_record_of_another_kind_of_evidence_is_in_no_table(run: Path) -> None:
    stored = read_run(run, MatrixRecord)
    mixed = (*stored.records[:-1], msgspec.structs.replace(stored.records[-1], evidence=Evidence.SIMULATED))
    with pytest.raises(DataError, match="is SIMULATED, and its run MEASURED: kinds are never mixed"):
        normalize(msgspec.structs.replace(stored, records=mixed), folder="run")


def test_the_folder_of_another_command_is_told_as_such(tmp_path: Path) -> None:
    manifest: dict[str, JsonValue] = {"schema": "arriero-lab-perf-v1"}
    RunLog.create(tmp_path / "perf", MatrixRecord, manifest, sync=False).close()
    (tmp_path / "perf" / LINES).write_text("{}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"is the run of something else \(arriero-lab-perf-v1\)"):
        write_normalized(tmp_path / "perf", partial=True)
