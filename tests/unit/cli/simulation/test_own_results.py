"""`arriero sim summary` and `sim compare` on results of arriero's own mode."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from arriero.cli.main import main
from tests.equivalence.lab_worlds import record
from tests.unit.record.sim_files import own_config, write_own


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results(**second: Any) -> list[str]:  # noqa: ANN401 - fields of every type
    """Two files: the usual run, and one that differs as said."""
    write_own(Path("one.jsonl"), own_config(name="one"))
    sha256 = second.pop("sha256", "a" * 64)
    write_own(Path("two.jsonl"), own_config(name="two", **second), sha256=sha256)
    return ["one.jsonl", "two.jsonl"]


def test_the_three_forms_of_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    paths = results(limits={"sequences": 1, "rows": 8})
    assert main(["sim", "summary", *paths, "--format", "json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [each["config_name"] for each in entries] == ["one", "two"]
    assert entries[0]["summary"]["counts"]["rejected"] == 1
    assert entries[0]["schema_version"] == "arriero-simulator-v1"
    assert main(["sim", "summary", *paths, "--format", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert float(rows[1]["requests_per_s"]) == entries[1]["summary"]["whole_run"]["requests_per_s"]
    assert rows[0]["ttft_p99_us"] == ""  # fewer than 100 requests
    assert rows[0]["evidence_type"] == "SIMULATED"
    assert main(["sim", "summary", *paths]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("| name | evidence | seed | submitted |")
    assert "one: incomplete: 1 of 7 requests did not finish" in told.out
    assert told.err == ""
    assert main(["sim", "summary", *paths, "--json", "s.json", "--csv", "s.csv", "--markdown", "s.md"]) == 0
    assert json.loads(Path("s.json").read_text()) == entries
    assert main(["sim", "summary", *paths, "--json", "s.json"]) == 2
    assert main(["sim", "summary", *paths, "--json", "t.json", "--csv", "./t.json"]) == 2
    assert not Path("t.json").exists()


def test_a_file_without_step_rows_says_what_is_taken_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    write_own(Path("off.jsonl"), own_config(trace="off"))
    assert main(["sim", "summary", "off.jsonl", "--format", "csv"]) == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2
    assert told.err == (
        "arriero: off.jsonl: no step rows, so what its summary says about steps is taken as it stands; "
        "--trace counts records them\n"
    )


def test_two_runs_are_put_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    paths = results(limits={"sequences": 1, "rows": 8})
    assert main(["sim", "compare", *paths]) == 0
    table = capsys.readouterr().out
    lines = {line.split(" | ")[0].strip("| "): line for line in table.splitlines()}
    assert "| metric | one | two | delta | delta % |" in table
    assert lines["finished"].startswith("| finished | 6 | 6 | +0 | +0.0000 |")
    assert "different" not in table
    assert main(["sim", "compare", ":".join(paths)]) == 0
    assert capsys.readouterr().out == table


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sha256": "b" * 64}, "These runs have different workloads"),
        ({"cost": {"base_us": 11}}, "These runs have different costs of a step."),
        ({"slos": {"ttft_us": 3}}, "These runs have different objectives."),
    ],
)
def test_what_makes_runs_unlike_is_said_before_any_figure(
    changes: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "compare", *results(**changes)]) == 0
    assert capsys.readouterr().out.startswith(says)
    if "sha256" in changes:
        assert main(["sim", "summary", "one.jsonl", "two.jsonl"]) == 0
        assert says in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["summary", "compare"])
def test_files_of_both_formats_are_refused_in_one_line(
    verb: str, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own(Path("own.jsonl"), own_config())
    other = shared_data / "serving-lab" / "results" / "raw" / "kv_small.jsonl"
    assert main(["sim", verb, "own.jsonl", str(other)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "own.jsonl is of arriero's own format and" in told.err
    assert "give files of one format" in told.err


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "line 1: schema_version"),
        (b"{}\n", "line 1: schema_version"),
        (b"[1]\n", "line 1: schema_version"),
        (b'{"schema_version":"arriero-bench-v1"}\n', "name a result of `arriero sim run`"),
        (b'{"schema_version":"arriero-simulator-v1"}\n', "line 1: record_type"),
        (b"\xff\xfe\n", "line 1: schema_version"),
    ],
)
def test_what_is_no_result_is_told_in_one_line(content: bytes, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("f.jsonl").write_bytes(content)
    assert main(["sim", "summary", "f.jsonl"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("arriero: f.jsonl: ")
    assert says in told
    assert told.count("\n") == 1


def test_lab_files_without_iteration_rows_are_read_and_say_so(
    shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = shared_data / "serving-lab" / "results" / "raw" / "mixed_overload.jsonl"
    lines = raw.read_bytes().splitlines(keepends=True)
    Path("few.jsonl").write_bytes(b"".join(line for line in lines if b'"iteration"' not in line))
    assert main(["sim", "summary", "few.jsonl", "--format", "json"]) == 0
    told = capsys.readouterr()
    (few,) = json.loads(told.out)
    assert "few.jsonl: no iteration rows, so iteration_count is N/A" in told.err
    assert "--trace full records them" in told.err
    assert main(["sim", "summary", str(raw), "--format", "json"]) == 0
    told = capsys.readouterr()
    (every,) = json.loads(told.out)
    assert told.err == ""
    assert few["summary"] == {**every["summary"], "iteration_count": None}
    assert main(["sim", "compare", "few.jsonl", str(raw)]) == 0


def test_a_generated_workload_has_the_hash_of_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("w.json").write_text(
        json.dumps({
            "schema_version": "serving-workload-v1", "workload_class": "chat", "request_count": 5, "seed": 3,
            "arrival": {"mode": "exponential", "mean_interval_us": 1000},
        })
    )  # fmt: skip
    assert main(["workload", "generate", "w.json", "--out", "w.jsonl"]) == 0
    usual = {
        "schema_version": "arriero-simulation-v1", "limits": {"sequences": 2, "rows": 99}, "kv": {"kind": "slots"},
        "cost": {"base_us": 100},
    }  # fmt: skip
    for name, source in (("made", {"generator": "w.json"}), ("read", {"path": "w.jsonl"})):
        Path(f"{name}.json").write_text(json.dumps({**usual, "name": name, "workload": source}))
        assert main(["sim", "run", "--config", f"{name}.json", "--out", f"{name}.jsonl"]) == 0
    capsys.readouterr()
    assert main(["sim", "compare", "made.jsonl", "read.jsonl"]) == 0
    assert capsys.readouterr().out.startswith("| metric | made | read |")


def test_requests_count_as_started_when_rows_are_computed_for_them() -> None:
    config = own_config(kv={"kind": "slots"}, limits={"sequences": 2, "rows": 2}, cost={"base_us": 10})
    asks = [record("a", 0, 1, 5), record("b", 0, 2, 1), record("c", 0, 9, 1)]
    summary = write_own(Path("f.jsonl"), config, asks)
    assert summary["latency"]["finished"]["queue_us"]["n"] == 3
    rows = [json.loads(line) for line in Path("f.jsonl").read_bytes().splitlines()]
    starts = [row["started_at_us"] for row in rows if row["record_type"] == "request"]
    firsts = [row["began_at_us"] for row in rows if row["record_type"] == "step" and row["prefill_rows"]]
    assert set(starts) <= set(firsts)
