"""`arriero lab report`."""

import json
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.record.cpu_lab.matrix import MatrixRecord
from arriero.record.cpu_lab.run_log import RunLog
from tests.unit.lab.analysis.matrix_rows import record


def run_folder(folder: Path, *, threads: tuple[int, ...] = (1, 2)) -> Path:
    with RunLog.create(folder, MatrixRecord, {"what": "test"}, sync=False) as log:
        for number in threads:
            log.append(record(50.0 * number, 20.0, threads=number, run_id=log.run_id))
    return folder


def test_a_folder_becomes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = run_folder(tmp_path / "run"), tmp_path / "report"
    assert main(["lab", "report", str(folder), "--out", str(out), "--title", "Threads here"]) == 0
    assert {path.name for path in out.iterdir()} == {"README.md", "index.html", "threads-1.svg", "analysis.json"}
    assert (out / "README.md").read_text().startswith("# Threads here\n")
    assert "| prefill | 2 | 100.00 |" in (out / "README.md").read_text()
    assert json.loads((out / "analysis.json").read_text())["schema_version"] == "arriero-lab-analysis-v1"
    assert "2 settings, 1 figures" in capsys.readouterr().out


def test_the_same_records_give_the_same_report(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    for name in ("one", "two"):
        assert main(["lab", "report", str(folder), "--out", str(tmp_path / name)]) == 0
    for name in ("README.md", "index.html", "threads-1.svg", "analysis.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_json_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path / "run")
    assert main(["lab", "report", str(folder), "--out", str(tmp_path / "report"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"] == ["MEASURED"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none"], "holds no run"),
        (["run", "--quality", "none.json"], "no such file"),
        ([], "the following arguments are required: RUN_FOLDER"),
    ],
)
def test_what_cannot_work_is_one_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    run_folder(tmp_path / "run")
    named = [str(tmp_path / word) if not word.startswith("-") else word for word in words]
    assert main(["lab", "report", *named, "--out", str(tmp_path / "report")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "report").exists()


def test_a_report_that_exists_is_replaced_by_force_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["lab", "report", str(run_folder(tmp_path / "run")), "--out", str(tmp_path / "report")]
    assert main(words) == 0
    assert main(words) == 2
    assert "exists already" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


def test_a_bad_line_is_an_error_with_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path / "run")
    with (folder / "run.jsonl").open("a") as file:
        file.write('{"run_id": "x"}\n')
    assert main(["lab", "report", str(folder), "--out", str(tmp_path / "report")]) == 2
    assert "line 3: " in capsys.readouterr().err
