import logging
from pathlib import Path

import numpy as np
import pytest

from arriero.backend.fingerprint import Fingerprint
from arriero.backend.run_files import PARTIAL, SUFFIX, write_run
from arriero.backend.run_folder import MANIFEST, RunFolder, open_folder
from arriero.core.errors import ConfigError
from arriero.testing.faults import damage_file, truncate_file

PRINT = Fingerprint((("model", "small"), ("KV type", "f16")))
OTHER = Fingerprint((("model", "small"), ("KV type", "q8_0")))
PAYLOAD = np.arange(64, dtype=np.uint8)


def put(folder: Path, name: str, *, tokens: tuple[int, ...] = (1, 2, 3), fingerprint: Fingerprint = PRINT) -> Path:
    path = folder / f"{name}{SUFFIX}"
    write_run(path, fingerprint.digest, "scope", tokens, PAYLOAD)
    return path


def scanned(folder: RunFolder, longest: int = 100) -> list[str]:
    return [run.path.stem for run in folder.scan(longest)]


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache"
    folder = open_folder(path, PRINT)
    assert path.stat().st_mode & 0o077 == 0
    assert folder.scan(10) == []
    folder.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first = open_folder(tmp_path, PRINT)
    with pytest.raises(ConfigError, match="another process uses it"):
        open_folder(tmp_path, PRINT)
    first.close()
    open_folder(tmp_path, PRINT).close()


def test_c12_another_kv_type_is_refused_by_name_and_changes_nothing(tmp_path: Path) -> None:
    open_folder(tmp_path, PRINT).close()
    put(tmp_path, "a")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match="KV type: f16 there, q8_0 here") as refused:
        open_folder(tmp_path, OTHER)
    assert "model" not in str(refused.value).partition("(")[2].partition(")")[0]
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    again = open_folder(tmp_path, PRINT)
    assert scanned(again) == ["a"]
    again.close()


def test_what_is_no_sound_run_of_this_folder_is_told_once_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = open_folder(tmp_path, PRINT)
    put(tmp_path, "good")
    damage_file(put(tmp_path, "damaged"), 20)
    truncate_file(put(tmp_path, "truncated"), 1)
    put(tmp_path, "foreign", fingerprint=OTHER)
    put(tmp_path, "long", tokens=tuple(range(11)))
    (tmp_path / f"stranger{SUFFIX}").write_text("hello")
    (tmp_path / f"empty{SUFFIX}").touch()
    (tmp_path / f"folder{SUFFIX}").mkdir()
    with caplog.at_level(logging.WARNING, "arriero.host_store"):
        assert scanned(folder, longest=10) == ["good"]
    told = [record.getMessage() for record in caplog.records]
    for name in ("damaged", "truncated", "foreign", "long", "stranger", "empty", "folder"):
        assert len([line for line in told if f"{name}{SUFFIX} is ignored" in line]) == 1, told
        assert (tmp_path / f"{name}{SUFFIX}").exists()
    assert len(told) == 7
    folder.close()


def test_what_a_crash_left_half_written_is_taken_away(tmp_path: Path) -> None:
    left = tmp_path / f"half{SUFFIX}{PARTIAL}"
    left.write_bytes(b"half")
    mine = tmp_path / "notes.txt"
    mine.write_text("keep me")
    open_folder(tmp_path, PRINT).close()
    assert not left.exists()
    assert mine.exists()


def test_a_damaged_manifest_is_written_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    open_folder(tmp_path, PRINT).close()
    (tmp_path / MANIFEST).write_text("{")
    with caplog.at_level(logging.WARNING, "arriero.host_store"):
        open_folder(tmp_path, OTHER).close()
    assert "is damaged" in caplog.text
    with pytest.raises(ConfigError, match="KV type"):
        open_folder(tmp_path, PRINT)


def test_a_folder_that_cannot_be_made_names_the_flag(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--cache-dir .*file.*cannot be used"):
        open_folder(tmp_path / "file", PRINT)


def test_runs_come_oldest_first(tmp_path: Path) -> None:
    folder = open_folder(tmp_path, PRINT)
    paths = [put(tmp_path, name) for name in ("b", "c", "a")]
    names = [path.stem for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))]
    assert scanned(folder) == names
    folder.close()
