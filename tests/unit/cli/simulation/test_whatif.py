"""`arriero sim whatif`: a journal through another configuration."""

import json
from pathlib import Path
from typing import Any

import pytest

from arriero.cli.main import main
from arriero.cli.simulation.whatif_cost import costs_of, fitted
from arriero.core.errors import ConfigError
from arriero.sim.recorded_run import read_recorded_run
from arriero.sim.whatif_setup import Changes, changed
from tests.unit.cli.plan_rig import write_profile
from tests.unit.sim.test_recorded_run import CROWD, journal_of
from tests.unit.sim.whatif_rig import CALIBRATED, asked, setup_of

BUSY = asked(*((400 * number, 20 + 17 * number % 200, 6 + number % 9) for number in range(40)))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return journal_of(tmp_path, setup_of(sequences=2), BUSY)


def figures(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    assert main(["sim", "whatif", *words, "--json"]) == 0
    found: dict[str, dict[str, Any]] = json.loads(capsys.readouterr().out)["figures"]
    return found


def test_old_is_what_was_recorded_and_new_is_another_machine(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, str(journal), "--sequences", "6")
    recorded, old, new = found["recorded"], found["simulated, old"], found["simulated, new"]
    for name, value in recorded.items():
        assert old[name] == (None if value is None else pytest.approx(value, rel=0.02)), name
    assert new["E2E p90 ms"] < 0.8 * old["E2E p90 ms"]
    assert new["output tokens/s"] > 1.3 * old["output tokens/s"]
    assert new["mean sequences of a step"] > 2 > 0.9 * old["mean sequences of a step"]
    assert new["finished"] == old["finished"] == 40


def test_a_target_cuts_the_gaps_and_costs_the_first_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = asked(*((30_000 * number, 300 if number % 3 == 2 else 10, 20) for number in range(15)))
    path = journal_of(tmp_path, setup_of(sequences=4, rows=512, cells=4096), prompts, cost=CALIBRATED)
    profile = write_profile(tmp_path / "cost.json", CALIBRATED)
    found = figures(capsys, str(path), "--itl-target", "20", "--profile", str(profile))
    old, new = found["simulated, old"], found["simulated, new"]
    assert new["largest gap p90 ms"] < 0.6 * old["largest gap p90 ms"]
    assert new["steps"] > old["steps"]


def test_the_table_says_what_it_rests_on(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--policy", "shortest-prefill", "--slo-ttft", "100"]
    assert main(["sim", "whatif", str(journal), *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "40 requests" in lines[0]
    assert "fitted on the" in lines[0]
    assert lines[1].split() == ["recorded", "simulated,", "old", "simulated,", "new", "new", "/", "old"]
    assert any(line.startswith("good of submitted") for line in lines)
    assert lines[-1].startswith("new against old")


def test_costs_are_fitted_on_the_steps_of_the_journal(journal: Path) -> None:
    found = costs_of(read_recorded_run(journal), None)
    cost = fitted(read_recorded_run(journal).steps)
    assert found.cost == cost
    assert (cost.base, cost.prefill_row, cost.decode_row) == pytest.approx((1000, 50, 100), rel=0.05)
    assert found.typical is not None
    assert found.typical < 0.01


def test_costs_in_the_journal_are_taken_before_a_fit(tmp_path: Path) -> None:
    setup = changed(setup_of(sequences=3), Changes(itl_target_ms=30), CALIBRATED)
    found = costs_of(read_recorded_run(journal_of(tmp_path, setup, CROWD, cost=CALIBRATED)), None)
    assert found.cost == CALIBRATED
    assert (found.typical, found.bias) == (0.0, 0.0)
    assert found.words == "the profile that the server had"


def test_too_few_steps_fit_nothing(tmp_path: Path) -> None:
    run = read_recorded_run(journal_of(tmp_path, setup_of(), asked((0, 4, 3))))
    with pytest.raises(ConfigError, match="the journal has 3 steps, and 20 are needed"):
        costs_of(run, None)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing is to be changed; give one of --policy"),
        (["--policy", "fastest"], "none of fcfs"),
        (["--itl-target", "50"], "give one with --profile"),
        (["--sequences", "0"], "0 is no whole number from 1 on"),
        (["--sequences", "500"], "a step has 64"),
        (["--sequences", "3", "--profile", "nowhere.json"], "nowhere.json"),
    ],
)
def test_misuse_is_one_line(journal: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "whatif", str(journal), *words]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


def test_what_is_no_journal_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text("{}\n")
    assert main(["sim", "whatif", str(path), "--sequences", "3"]) == 2
    assert "line 1" in capsys.readouterr().err
