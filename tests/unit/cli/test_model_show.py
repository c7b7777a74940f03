import json
from pathlib import Path

import pytest

from arriero.cli.main import main
from tests.unit.backend.gguf_files import Tensor, gguf, small_model


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.gguf"
    path.write_bytes(small_model())
    return path


def test_a_file_is_shown_with_its_real_types(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "show", str(small)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "context     2,048 tokens, vocabulary 4" in lines
    assert "declared    Q4_K_M" in lines
    assert any(line.split() == ["Q5_0", "2", "2,304", "1,584", "22.1%", "5.50"] for line in lines)
    assert lines[-2] == (
        "Q5_0 in 2 tensors: rows of 576 weights do not fill whole blocks of 256, so it stands in for Q4_K"
    )
    assert lines[-1].startswith("Q8_0 in 1 tensor: ")


def test_json_holds_the_same(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "show", str(small), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["file"] == "small.gguf"
    assert [each["type"] for each in told["tensor_types"]] == ["Q8_0", "F32", "Q5_0", "Q6_K"]


def test_a_file_that_says_little_is_shown_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bare.gguf"
    path.write_bytes(gguf([], [Tensor(name="a", shape=(4,))]))
    assert main(["model", "show", str(path)]) == 0
    out = capsys.readouterr().out
    assert "no name given, architecture unknown" in out
    assert "unknown tokens" in out


def test_a_damaged_file_is_one_line(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small.write_bytes(small.read_bytes()[:300])
    assert main(["model", "show", str(small)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "damaged GGUF file" in err


def test_a_verb_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "shew"]) == 2
    assert "did you mean show?" in capsys.readouterr().err
