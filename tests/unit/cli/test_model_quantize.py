"""`arriero model quantize` up to the conversion itself; that one is tested on the real model."""

from pathlib import Path

import pytest

from arriero.backend.models import WeightFormat
from arriero.cli.main import main
from arriero.cli.model_quantize import doubts, format_of, new_name
from arriero.core.errors import ConfigError
from arriero.lab.machine.model_file import model_facts
from tests.unit.backend.gguf_files import Tensor, gguf, small_model, uint32


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.Q4_K_M.gguf"
    path.write_bytes(small_model())
    return path


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.F16.gguf"),
        ("qwen2.5-0.5b-instruct-q4_k_m.gguf", "qwen2.5-0.5b-instruct.F16.gguf"),
        ("model-bf16.gguf", "model.F16.gguf"),
        ("model.IQ4_XS.gguf", "model.F16.gguf"),
        ("model.gguf", "model.F16.gguf"),
        ("no-ending", "no-ending.F16.gguf"),
    ],
)
def test_the_format_in_the_name_gives_way(old: str, new: str) -> None:
    assert new_name(old, WeightFormat.F16) == new


def test_formats_are_taken_in_any_case() -> None:
    assert format_of("q4_k_m") is WeightFormat.Q4_K_M
    with pytest.raises(ConfigError, match="Q5_K_M: no such format; use Q4_0, Q4_1, Q8_0, Q4_K_M, F16, BF16"):
        format_of("Q5_K_M")


def test_a_quantised_source_is_told_as_such(small: Path, tmp_path: Path) -> None:
    (line,) = doubts(model_facts(small), WeightFormat.F16)
    assert "quantised already (Q8_0, Q5_0, Q6_K)" in line
    assert "no reference for quality" in line
    assert len(doubts(model_facts(small), WeightFormat.Q4_K_M)) == 2
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(gguf([uint32("general.file_type", 1)], [Tensor(name="a", shape=(32, 2), type="F16")]))
    assert doubts(model_facts(whole), WeightFormat.Q8_0) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["F17"], "F17: no such format"),
        (["F16", "--out", "small.Q4_K_M.gguf", "--force"], "is the source itself"),
        (["F16", "--out", "taken.gguf"], "exists already"),
        (["F16", "--threads", "-1"], "--threads -1"),
        (["F16", "--out", "taken.gguf/below.gguf"], "no folder can be made there"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    small: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = small.with_name("taken.gguf")
    taken.write_text("mine")
    assert main(["model", "quantize", str(small), *words]) == 2
    assert says in capsys.readouterr().err
    assert taken.read_text() == "mine"
    assert sorted(path.name for path in small.parent.iterdir()) == ["small.Q4_K_M.gguf", "taken.gguf"]
