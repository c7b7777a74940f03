"""`arriero bench experiment fifo-pool`: the published options and outputs."""

import gzip
import json
from pathlib import Path

import pytest

from arriero.cli.bench.experiment import main
from arriero.core.errors import ConfigError

BASE = ["fifo-pool", "--backend", "synthetic", "--requests", "6", "--concurrent", "3"]


@pytest.mark.parametrize("runner", ["threads", "asyncio"])
def test_a_run_prints_the_published_figures(runner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pool.json"
    folder = tmp_path / "evidence"
    plan = ["--budget-plan", "2,0,3", "--cancel", "3", "--cancel-after", "1", "--json", str(file), "--out", str(folder)]
    assert main([*BASE, "--runner", runner, *plan]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == f"PASS fifo-pool: evidence in {folder}"
    assert f"runner: {runner}\nok: 5, cancelled: 1, errors: none\n" in out
    assert "decode calls: 9, bypassed: 2" in out
    assert "pool: acquires 4, releases 4," in out
    assert out.count("hash of budget") == 2
    written = json.loads(file.read_text())
    assert (written["schema"], written["evidence"], written["broken_rules"]) == (
        "arriero-fifo-pool-v1",
        "SIMULATED",
        [],
    )
    assert written["figures"]["ok"] == 5
    with pytest.raises(ConfigError, match="--force"):
        main([*BASE, "--runner", runner, "--json", str(file), "--out", str(tmp_path / "other")])
    assert not (tmp_path / "other").exists()


def test_a_run_leaves_an_evidence_package(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    command = [*BASE, "--runner", "threads", "--budget-plan", "2,0,3", "--out", str(folder)]
    assert main(command) == 0
    plan, results, verdicts = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("config", "results", "verdicts")
    )
    assert (plan["config"]["runner"], plan["config"]["budgets"]) == ("threads", [2, 0, 3])
    assert plan["origin"]["command"][:4] == ["arriero", "bench", "experiment", "fifo-pool"]
    assert {each["text"]: each["measured"] for each in verdicts["statements"]} == {
        "rules of the pool that were broken": "0",
        "requests that failed": "none",
    }
    assert {table["label"] for table in results["tables"]} == {"SIMULATED"}
    values = dict(results["tables"][0]["rows"])
    assert (values["ok"], values["acquires"], values["releases"], values["bypassed"]) == (6, 4, 4, 2)
    assert (values["total, n"], values["total, p99 ms"], values["errors"]) == (4, None, "none")
    assert [(row[0], row[1]) for row in results["tables"][1]["rows"]] == [(2, 1), (3, 1)]
    (run,) = gzip.decompress((folder / "raw" / "run.jsonl.gz").read_bytes()).splitlines()
    assert [life[:3] for life in json.loads(run)["lives"]] == [
        [0, 2, "ok"], [1, 0, "ok"], [2, 3, "ok"], [3, 2, "ok"], [4, 0, "ok"], [5, 3, "ok"],
    ]  # fmt: skip
    assert str(tmp_path) not in (folder / "config.json").read_text()
    with pytest.raises(ConfigError, match="--force"):
        main(command)
    assert main([*command, "--force"]) == 0


def test_a_run_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        main(["fifo-pool", "--runner", "threads", "--model", str(tmp_path / "no.gguf"), "--out", str(tmp_path / "out")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["--runner", "fibres"], "fibres"),
        ([], "--runner"),
        (["--runner", "threads", "--budget", "2", "--budget-plan", "1,2"], "leave one out"),
        (["--runner", "threads", "--budget-plan", "1,x"], "no whole number"),
        (["--runner", "threads", "--contexts", "0"], "from 1 on"),
        (["--runner", "threads", "--ctx-size", "4"], "--ctx-size 4"),
        (["--runner", "threads", "--model", "my.gguf"], "--model my.gguf: the synthetic backend"),
    ],
)
def test_options_that_cannot_work_are_told_and_leave_nothing(words: list[str], word: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=word):
        main([*BASE, *words, "--out", str(tmp_path / "out")])
    assert list(tmp_path.iterdir()) == []
