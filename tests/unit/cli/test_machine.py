"""The cores that a process may use are those of its affinity, within the quotas of its control groups."""

import os
from pathlib import Path

import pytest

from arriero.cli.machine import available_cores


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)


def cores(folder: Path, own: str = "/") -> int:
    (folder / "own").write_text(f"0::{own}\n")
    return available_cores(folder, folder / "own")


@pytest.mark.usefixtures("four_cores")
class TestFourCores:
    def test_without_a_quota_all_are_available(self, tmp_path: Path) -> None:
        assert cores(tmp_path) == 4

    @pytest.mark.parametrize(
        ("quota", "expected"),
        [("max 100000", 4), ("200000 100000", 2), ("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 4)],
    )
    def test_a_quota_counts_whole_cores(self, tmp_path: Path, quota: str, expected: int) -> None:
        (tmp_path / "cpu.max").write_text(quota)
        assert cores(tmp_path) == expected

    def test_the_tightest_group_from_the_own_one_upward_decides(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a" / "cpu.max").write_text("300000 100000")
        (tmp_path / "a" / "b" / "cpu.max").write_text("max 100000")
        assert cores(tmp_path, "/a/b") == 3

    @pytest.mark.parametrize(("quota", "expected"), [("-1", 4), ("200000", 2)])
    def test_the_older_files_count_too(self, tmp_path: Path, quota: str, expected: int) -> None:
        (tmp_path / "cpu").mkdir()
        (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
        (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
        assert cores(tmp_path) == expected
