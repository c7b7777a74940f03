import json
from pathlib import Path

import pytest

from arriero.record.lab_config import read_lab_config
from arriero.record.lab_run import WorkloadManifest, decode_run, encode_run
from arriero.record.provenance import code_sha256, lab_run_row, own_run_row, portable_command, revision
from arriero.workload.manifest import read_manifest


def test_paths_in_a_command_are_relative_or_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["arriero", "--out", str(tmp_path / "a" / "b.jsonl"), "--config=/etc/deep/c.json", "rel/d.json"]
    assert portable_command(words) == ["arriero", "--out", "a/b.jsonl", "--config=c.json", "rel/d.json"]


def test_our_run_row_passes_its_own_check(shared_data: Path) -> None:
    folder = shared_data / "serving-lab"
    config = read_lab_config(folder / "configs" / "fcfs_chat_small.json")
    manifest = json.loads((folder / "workloads" / "chat.manifest.json").read_text())
    assert read_manifest(folder / "workloads" / "chat.manifest.json").seed == config.run_seed
    row = lab_run_row(config, WorkloadManifest(**manifest), ["arriero", "sim", "run"])
    again, same = decode_run(encode_run(row), file="x")
    assert again == row
    assert same == config
    assert row.scheduling_policy is None


def test_no_absolute_path_and_no_wall_clock_in_any_row() -> None:
    row = own_run_row({"a": 1}, schema="s", workload_sha256="0", workload=None, seed=1, command=["arriero", "/x/y"])
    text = json.dumps(row)
    assert '"/' not in text
    assert row == own_run_row(
        {"a": 1}, schema="s", workload_sha256="0", workload=None, seed=1, command=["arriero", "y"]
    )


def test_the_hash_of_the_code_is_stable_and_lower_case() -> None:
    assert code_sha256() == code_sha256()
    assert len(code_sha256()) == 64
    assert isinstance(revision().is_dirty, bool)
