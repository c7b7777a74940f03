from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.workload.staging import staged


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_an_interrupted_file_never_appears_and_leaves_nothing_behind(tmp_path: Path, stop: type[BaseException]) -> None:
    def write() -> None:
        with staged(tmp_path / "f") as file:
            file.write(b"half")
            raise stop

    with pytest.raises(stop):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"f: cannot be written \(no space left\)"), staged(tmp_path / "f"):
        raise OSError(28, "No space left")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_seen_under_the_name_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with staged(path) as file:
        file.write(b"whole")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"whole"


def test_a_file_that_somebody_else_made_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "f"

    def write() -> None:
        with staged(path) as file:
            file.write(b"ours")
            path.write_bytes(b"theirs")

    with pytest.raises(ConfigError, match="exists already"):
        write()
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == {path: b"theirs"}


def test_a_link_that_leads_nowhere_counts_as_taken(tmp_path: Path) -> None:
    (tmp_path / "f").symlink_to(tmp_path / "none")
    with pytest.raises(ConfigError, match="exists already"), staged(tmp_path / "f"):
        pass
