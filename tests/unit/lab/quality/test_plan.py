"""What is left to be measured."""

import struct
from pathlib import Path

import pytest
from msgspec.structs import replace

from arriero.core.errors import ConfigError
from arriero.lab.machine.model_file import model_facts
from arriero.lab.quality.plan import QualityPlan, files_left
from arriero.lab.quality.texts import read_prompts, read_text
from tests.unit.record.cpu_lab.quality_files import RESULT


def model(path: Path) -> Path:
    """A file that is hardly a model, with a content of its own."""
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(8) + path.name.encode())
    return path


def plan(*candidates: Path) -> QualityPlan:
    return QualityPlan(reference=candidates[0], candidates=candidates, passage=read_text(), prompts=read_prompts())


@pytest.mark.parametrize("num_done", range(4))
def test_a_run_that_was_killed_after_any_file_goes_on_with_the_next(tmp_path: Path, num_done: int) -> None:
    """The result is written anew after each file, so that is what a kill leaves; done files are known by content."""
    files = [model(tmp_path / name) for name in ("a.gguf", "b.gguf", "c.gguf")]
    done = tuple(replace(RESULT.candidates[0], model=model_facts(path)) for path in files[:num_done])
    moved = [path.rename(path.with_suffix(".moved")) for path in files]
    assert files_left(plan(*moved), None) == tuple(moved)
    assert files_left(plan(*moved), replace(RESULT, candidates=done)) == tuple(moved[num_done:])


def test_a_file_that_is_none_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        files_left(plan(model(tmp_path / "a.gguf"), tmp_path), None)
    with pytest.raises(ConfigError, match="byte for byte; give it once"):
        files_left(plan(tmp_path / "a.gguf", tmp_path / "a.gguf"), None)
