from pathlib import Path

import numpy as np
import pytest

from arriero.backend.run_files import RunFileError, read_head, read_payload, run_name, write_run
from arriero.testing.faults import damage_file, truncate_file

TOKENS = (5, 2**31 - 1, 0, 77)
PAYLOAD = np.arange(100, dtype=np.uint8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written = tmp_path / run_name("scope", TOKENS)
    write_run(written, "print", "scope é", TOKENS, PAYLOAD)
    return written


def test_a_run_comes_back_as_it_was_written(path: Path) -> None:
    found = read_head(path)
    assert found == write_run(path, "print", "scope é", TOKENS, PAYLOAD)
    assert (found.tokens, found.head.scope, found.head.fingerprint) == (TOKENS, "scope é", "print")
    assert read_payload(found).tobytes() == PAYLOAD.tobytes()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_nobody_else_may_read_it(path: Path) -> None:
    assert path.stat().st_mode & 0o077 == 0


def test_the_name_goes_by_scope_and_tokens() -> None:
    names = {run_name("a", (1, 2)), run_name("a", (1, 2, 3)), run_name("b", (1, 2)), run_name("a", (2, 1))}
    assert len(names) == 4
    assert run_name("a", (1, 2)) in names


def test_any_damaged_byte_is_found(path: Path) -> None:
    whole = path.read_bytes()
    for at in range(len(whole)):
        damage_file(path, at)
        with pytest.raises(RunFileError):
            read_payload(read_head(path))
        path.write_bytes(whole)
    assert read_payload(read_head(path)).nbytes == PAYLOAD.nbytes


def test_any_missing_end_is_found(path: Path) -> None:
    whole = path.read_bytes()
    for length in (*range(200), len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(RunFileError):
            read_head(path)


def test_a_file_that_shrinks_after_it_was_found_is_not_read(path: Path) -> None:
    found = read_head(path)
    truncate_file(path, 1)
    with pytest.raises(RunFileError, match="truncated"):
        read_payload(found)


def test_a_payload_outlives_its_file(path: Path) -> None:
    payload = read_payload(read_head(path))
    path.unlink()
    assert payload.tobytes() == PAYLOAD.tobytes()


def test_a_disk_that_does_not_take_it_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken.kv").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_run(tmp_path / "taken.kv", "print", "scope", TOKENS, PAYLOAD)
    assert [each.name for each in tmp_path.iterdir()] == ["taken.kv"]
