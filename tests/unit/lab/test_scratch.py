"""Scratch files and folders, and a disk that has no room for them."""

import sys
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.lab.process import run_process
from arriero.lab.scratch import scratch_file, scratch_folder


def test_both_are_gone_in_the_end() -> None:
    with scratch_folder("test") as folder, scratch_file() as file:
        (folder / "inside").write_text("x")
        assert file.write(b"x") == 1
        assert folder.name.startswith("arriero-test-")
    assert not folder.exists()


def test_no_place_for_them_is_one_line_and_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"no temporary file can be made .*TMPDIR"), scratch_folder("test"):
        pass
    with pytest.raises(ConfigError, match=r"no temporary file can be made .*TMPDIR") as caught:
        run_process([sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"], timeout_s=30)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
