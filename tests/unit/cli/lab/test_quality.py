"""`arriero lab quality`: what is refused, in one line, before a model is loaded; and results that are shown again."""

import json
from pathlib import Path

import msgspec
import pytest

from arriero.cli.lab.quality_view import lines_of
from arriero.cli.main import main
from arriero.record.cpu_lab.quality import QualityStatus, write_quality
from tests.unit.record.cpu_lab.quality_files import RESULT


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "no MODEL given"),
        (["a.gguf"], "--reference: missing"),
        (["a.gguf", "--reference", "b.gguf", "--window", "many"], "--window many"),
        (["a.gguf", "--reference", "b.gguf", "--answer-tokens", "-1"], "--answer-tokens -1"),
        (["a.gguf", "--reference", "b.gguf", "--quick", "--stride", "9"], "--quick sets --window"),
        (["a.gguf", "--reference", "b.gguf", "--text", "none.txt"], "none.txt: --text: no such file"),
        (["a.gguf", "--reference", "b.gguf", "--text", "."], ".: --text: is a directory"),
        (["a.gguf", "--reference", "b.gguf", "--kv-type", "q3"], "--kv-type"),
        (["a.gguf", "--from", "q.json"], "leave out MODEL"),
        (["--from", "q.json"], "q.json: no such file"),
    ],
)
def test_what_cannot_work_is_one_line(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "quality", *words]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert complaint in said[0]


def test_a_result_is_not_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.json").write_text("mine")
    assert main(["lab", "quality", "a.gguf", "--reference", "b.gguf", "--out", "mine.json"]) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "mine.json").read_text() == "mine"


def test_a_report_that_exists_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("mine")
    assert main(["lab", "quality", "a.gguf", "--reference", "b.gguf", "--report", "report"]) == 2
    assert "report/index.html: exists already" in capsys.readouterr().err


def test_a_result_is_shown_and_reported_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "q.json"
    write_quality(path, RESULT)
    assert main(["lab", "quality", "--from", str(path), "--report", "report"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("MEASURED: 6 windows of 16 tokens of passages.txt, 48 tokens scored")
    assert "reference: small.F16.gguf is no quality reference" in out
    assert "reference, as you say: from Q4_1" in out
    assert (tmp_path / "report" / "README.md").exists()
    assert main(["lab", "quality", "--from", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["evidence"] == "MEASURED"
    assert shown["candidates"][1]["file"] == "small.Q8_0.gguf"
    assert "scores" not in shown["candidates"][1]


def test_an_unfinished_result_says_so() -> None:
    lines = list(lines_of(msgspec.structs.replace(RESULT, status=QualityStatus.INTERRUPTED)))
    assert lines[-1] == "interrupted: not all files are in it; go on with --resume"
