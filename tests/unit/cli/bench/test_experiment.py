"""`arriero bench experiment`: which one, from which definition, and where its evidence goes."""

import json
from pathlib import Path

import pytest

from arriero.cli.bench.experiment import EXPERIMENTS, main
from arriero.core.errors import ConfigError, DataError

Capture = pytest.CaptureFixture[str]


def test_an_experiment_runs_by_its_number_and_leaves_its_evidence(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "evidence"
    assert main(["e9", "--quick", "--out", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "E9 mixed-decode: " in out
    assert "  metric: " in out
    assert "The engine [SIMULATED]" in out
    assert out.splitlines()[-1] == f"PASS mixed-decode: evidence in {folder}"
    assert json.loads((folder / "config.json").read_text())["origin"]["command"][:5] == [
        "arriero", "bench", "experiment", "e9", "--quick",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="--force"):
        main(["mixed-decode", "--quick", "--out", str(folder)])


def test_a_broken_statement_is_told_and_fails_the_command(tmp_path: Path, capsys: Capture) -> None:
    mine = tmp_path / "mine.toml"
    # one client at a time gives a shared context nothing to share, so it makes as many calls as the pool
    mine.write_text("""
prompt_tokens = 6
num_rows = 64
warm_up_rounds = 0
calls_tolerance = 0.15
control_budgets = [2]
seed = 1
model = {backend = "synthetic"}
shapes = [
    {name = "alone", contexts = 2, concurrent = 1, requests = 4, budgets = [4], engine_threads = 2, rounds = 2},
]
""")
    assert main(["e8", "--config", str(mine), "--out", str(tmp_path / "out")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("FAIL alone: decode calls of the threads pool") for line in lines)
    assert lines[-1] == f"FAIL pool-against-engine: evidence in {tmp_path / 'out'}"
    verdicts = json.loads((tmp_path / "out" / "verdicts.json").read_text())
    assert verdicts["verdict"] == "FAIL"


def test_an_open_statement_never_passes(tmp_path: Path, capsys: Capture) -> None:
    mine = tmp_path / "mine.toml"
    # two steps are too few to fit three costs and to judge them
    mine.write_text("""
prompt_tokens = 6
repeats = 2
seed = 1
makespan_tolerance = 0.1
model = {backend = "synthetic", call_s = 0.001, virtual_time = true}
cases = [{name = "tight", slots = 2, requests = 2, budgets = [2], num_rows = 16}]
""")
    assert main(["mixed-decode", "--config", str(mine), "--out", str(tmp_path / "out")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert not any(line.startswith("FAIL") for line in lines)
    assert any(line.startswith("OPEN tight: makespan") for line in lines)
    assert lines[-1] == f"OPEN mixed-decode: evidence in {tmp_path / 'out'}"


def test_an_unknown_name_is_told_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean mixed-decode"):
        main(["mixed-decod"])
    with pytest.raises(ConfigError, match="fifo-pool"):
        main(["xyz"])
    with pytest.raises(ConfigError, match="no name given"):
        main([])


def test_help_lists_every_experiment(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(name in out and entry.number in out for name, entry in EXPERIMENTS.items())


def test_a_flag_that_the_experiment_has_no_use_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--peer llama-server: mixed-decode has no peer"):
        main(["mixed-decode", "--quick", "--peer", "llama-server", "--out", str(tmp_path / "out")])


def test_a_model_beside_a_formula_is_refused(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "out")]
    with pytest.raises(ConfigError, match=r"--model my\.gguf: the synthetic backend .*; leave out --quick or --model"):
        main(["mixed-decode", "--quick", "--model", "my.gguf", *out])
    mine = tmp_path / "mine.toml"
    mine.write_text("""
prompt_tokens = 6
repeats = 2
seed = 1
makespan_tolerance = 0.1
model = {backend = "synthetic"}
cases = [{name = "tight", slots = 2, requests = 2, budgets = [2], num_rows = 16}]
""")
    with pytest.raises(ConfigError, match=r"--model my\.gguf: .*; leave it out"):
        main(["mixed-decode", "--config", str(mine), "--model", "my.gguf", *out])
    assert list(tmp_path.iterdir()) == [mine]


def test_a_definition_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        main(["mixed-decode", "--config", str(tmp_path / "nowhere.toml"), "--out", str(tmp_path / "out")])


def test_a_run_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        main(["mixed-decode", "--model", str(tmp_path / "no.gguf"), "--out", str(tmp_path / "out")])
    assert list(tmp_path.iterdir()) == []


def test_every_number_names_one_experiment() -> None:
    numbers = [entry.number for entry in EXPERIMENTS.values() if entry.number]
    assert sorted(set(numbers)) == [f"E{number}" for number in range(1, 10)]
    assert numbers.count("E7") == 4, "its workloads are an experiment each; the number names the first"
    assert len(numbers) == 12
