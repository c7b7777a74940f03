"""`arriero bench experiment fifo-pool`: the published options and outputs."""

import json
from pathlib import Path

import pytest

from arriero.cli.bench.experiment import main
from arriero.core.errors import ConfigError

BASE = ["fifo-pool", "--backend", "synthetic", "--requests", "6", "--concurrent", "3"]


@pytest.mark.parametrize("runner", ["threads", "asyncio"])
def test_a_run_prints_the_published_figures(runner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pool.json"
    plan = ["--budget-plan", "2,0,3", "--cancel", "3", "--cancel-after", "1", "--json", str(file)]
    assert main([*BASE, "--runner", runner, *plan]) == 0
    out = capsys.readouterr().out
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
        main([*BASE, "--runner", runner, "--json", str(file)])


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["--runner", "fibres"], "fibres"),
        ([], "--runner"),
        (["--runner", "threads", "--budget", "2", "--budget-plan", "1,2"], "leave one out"),
        (["--runner", "threads", "--budget-plan", "1,x"], "no whole number"),
        (["--runner", "threads", "--contexts", "0"], "from 1 on"),
        (["--runner", "threads", "--ctx-size", "4"], "--ctx-size 4"),
    ],
)
def test_options_that_cannot_work_are_told(words: list[str], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        main([*BASE, *words])
