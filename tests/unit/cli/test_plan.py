"""`arriero plan`: from a workload, objectives and a profile to a rate and a configuration."""

import json
import shlex
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.cli.plan_config import as_toml, settings_of
from arriero.cli.sources import add_options, configure, from_toml, make_parser
from arriero.core.config_rules import resolve
from arriero.record.capacity_plan import CapacityPlan, read_plan
from arriero.record.validation import compared, encode_validation
from arriero.workload.files import write_workload
from arriero.workload.records import WorkloadClass, WorkloadRecord
from tests.unit.cli.plan_rig import write_profile
from tests.unit.record.validation_files import validation
from tests.unit.sim.test_recorded_run import CROWD, journal_of
from tests.unit.sim.whatif_rig import CALIBRATED, setup_of

FEW = (
    "--requests", "30", "--sequences", "1,3", "--policy", "fcfs", "--prefill-rows-per-step", "0", "--itl-target", "0",
)  # fmt: skip
GOOD = ("--slo-ttft", "400", "--slo-gap", "120", "--share", "0.9")
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{number:02d}.{number % 7}000000,{80 + 31 * number},{16 + number}\n" for number in range(40)
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARRIERO_CONFIG", raising=False)
    write_profile(tmp_path / "cost.json", CALIBRATED)


def plan(*words: str, status: int = 0) -> CapacityPlan:
    assert main(["plan", *words, "--profile", "cost.json", "--jobs", "1", "--out", "plan.json", "--force"]) == status
    return read_plan(Path("plan.json"))


def test_it_finds_a_rate_and_a_configuration_that_a_server_takes(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan("40x8", *FEW, *GOOD, "--write-config", "serve.toml")
    assert found.best is not None
    best = found.candidates[found.best]
    assert best.rate_per_s == max(each.rate_per_s for each in found.candidates) > 0
    assert best.settings.sequences == 3, "three at once serve more than one"
    assert best.settings.ctx_size == 3 * 256
    assert found.prospect is not None
    assert found.prospect.figures["good of submitted"] == pytest.approx(best.attainment)
    config = resolve(from_toml(Path("serve.toml")))
    assert (config.sequences, config.ctx_size, config.policy) == (3, 768, "fcfs")
    assert config.cost_profile == "cost.json"
    printed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("sustainable: ") for line in printed)
    served, asked = (shlex.split(line) for line in printed[-2:])
    assert served[:2] == ["arriero", "serve"]
    parser = make_parser("serve", "x")
    add_options(parser)
    assert configure(parser.parse_args(served[2:]), {}) == config
    assert asked[:4] == ["arriero", "bench", "run", "40x8"]
    assert float(asked[asked.index("--rate") + 1]) == pytest.approx(best.rate_per_s, rel=1e-3)
    assert asked[-4:] == ["--slo-ttft", "400", "--slo-gap", "120"]


def test_the_same_plan_gives_the_same_bytes() -> None:
    plan("40x8", *FEW, *GOOD)
    first = Path("plan.json").read_bytes()
    plan("40x8", *FEW, *GOOD)
    assert Path("plan.json").read_bytes() == first
    assert json.loads(first)["evidence"] == "SIMULATED"
    assert "/" not in json.loads(first)["profile"]["file"]


def test_several_processes_find_the_same() -> None:
    alone = plan("40x8", *FEW, *GOOD)
    words = ["plan", "40x8", *FEW, *GOOD, "--profile", "cost.json", "--jobs", "2", "--out", "two.json"]
    assert main(words) == 0
    assert read_plan(Path("two.json")).candidates == alone.candidates


def test_tighter_objectives_sustain_less() -> None:
    loose = plan("40x8", *FEW, "--slo-ttft", "2000")
    tight = plan("40x8", *FEW, "--slo-ttft", "60")
    rates = [[each.rate_per_s for each in found.candidates] for found in (loose, tight)]
    assert all(high >= low for high, low in zip(*rates, strict=True))
    assert rates[0][1] > rates[1][1]


def test_a_target_and_row_limits_are_tried_each_with_each() -> None:
    lists = ("--sequences", "2,3", "--policy", "fcfs,shortest-prefill", "--prefill-rows-per-step", "0,16")
    found = plan("40x4", "--requests", "12", *lists, "--slo-gap", "60")
    tried = [each.settings for each in found.candidates]
    assert len({repr(each) for each in tried}) == len(tried) == 2 * 2 * 2 * 2
    assert {each.itl_target for each in tried} == {None, 60}
    assert {each.prefill_rows_per_step for each in tried} == {None, 16}


def test_a_trace_is_scaled_and_keeps_its_own_arrivals(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text(AZURE)
    trace = ("t.csv", "--trace", "azure", "--unverified", "--scale", "8", "--context", "150")
    found = plan(*trace, *FEW, "--slo-e2e", "20000")
    work = found.workload
    assert (work.scale, work.arrivals, work.requests) == (8, "own", 30)
    assert work.left_out == 40 - 30
    assert work.longest <= 150
    assert work.own_rate_per_s == pytest.approx(1.0, abs=0.05)
    imported, asked = (shlex.split(line) for line in capsys.readouterr().out.splitlines()[-2:])
    assert imported == [
        "arriero", "workload", "import", "azure", "t.csv", "--scale", "8", "--context", "150", "--out", "planned.jsonl",
    ]  # fmt: skip
    assert found.best is not None
    assert work.own_rate_per_s is not None
    speed = float(asked[asked.index("--speed") + 1])
    assert speed * work.own_rate_per_s == pytest.approx(found.candidates[found.best].rate_per_s, rel=1e-3)
    finer = plan(*("16" if word == "8" else word for word in trace), *FEW, "--slo-e2e", "20000")
    assert finer.workload.prompt_tokens < work.prompt_tokens


def test_a_journal_and_a_workload_file_are_taken_as_they_are(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, setup_of(sequences=3), CROWD)
    found = plan(str(journal), *FEW, *GOOD)
    assert (found.workload.name, found.workload.requests, found.workload.arrivals) == ("run.jsonl", 24, "own")
    records = [
        WorkloadRecord(
            request_id=f"r{number}", arrival_time_us=number * 10**5, prompt_token_count=20, max_new_tokens=6,
            workload_class=WorkloadClass.CHAT,
        )
        for number in range(20)
    ]  # fmt: skip
    written = write_workload(Path("w.jsonl"), records)
    found = plan("w.jsonl", *FEW, *GOOD)
    assert (found.workload.sha256, found.workload.requests) == (written.sha256, 20)
    assert found.workload.own_rate_per_s == pytest.approx(10.0)
    by_chance = plan("w.jsonl", *FEW, *GOOD, "--arrivals", "poisson", "--seed", "3")
    assert (by_chance.workload.arrivals, by_chance.workload.seed) == ("poisson", 3)


def test_a_validation_gives_error_bars() -> None:
    capacity = compared("output_tokens_per_s", "rate", "per_s", measured=[50.0, 50.0], simulated=60.0)
    Path("v.json").write_bytes(encode_validation(validation(capacities={"chat": capacity})))
    found = plan("40x8", *FEW, *GOOD, "--validation", "v.json")
    assert found.best is not None
    assert found.error_bars is not None
    rate = found.candidates[found.best].rate_per_s
    assert found.error_bars.cost_error == pytest.approx(0.2)
    assert 0.6 * rate < found.error_bars.low_per_s < rate < found.error_bars.high_per_s < 1.6 * rate


def test_objectives_that_nothing_keeps_end_with_status_one(capsys: pytest.CaptureFixture[str]) -> None:
    found = plan("40x8", *FEW, "--slo-ttft", "0.5", "--write-config", "serve.toml", status=1)
    assert (found.best, found.prospect) == (None, None)
    assert "no candidate keeps the objectives" in capsys.readouterr().out
    assert not Path("serve.toml").exists()


def test_a_candidate_that_cannot_start_says_why() -> None:
    found = plan("40x8", *FEW[:2], "--sequences", "2,80", "--batch", "64", "--micro-batch", "64", *FEW[4:], *GOOD)
    assert found.candidates[0].refused is None
    refused = found.candidates[-1]
    assert refused.refused is not None
    assert "--batch 64" in refused.refused
    assert refused.rate_per_s == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["40x8"], "no objective is given"),
        (["nowhere.jsonl", "--slo-ttft", "9"], "nowhere.jsonl"),
        (["40x8", "--slo-ttft", "x"], "--slo-ttft: x is no number"),
        (["40x8", "--slo-ttft", "9", "--share", "0"], "0 is no share"),
        (["40x8", "--slo-ttft", "9", "--scale", "8"], "--scale: goes with --trace"),
        (["40x8", "--slo-ttft", "9", "--sequences", "0"], "--sequences 0: 0 is too low"),
        (["40x8", "--slo-ttft", "9", "--sequences", "1-200", "--policy", "fcfs,deadline"], "candidates: at most 256"),
        (["40x8", "--slo-ttft", "9", "--policy", "fastest", "--sequences", "2"], "no candidate could start"),
        (["40x8", "--slo-ttft", "9", "--policy", "fcfs,"], "an empty entry"),
        (["40x8", "--slo-ttft", "9", "--threads", "7"], "calibrated for 1, 2 only"),
        (["t.csv", "--trace", "azure", "--slo-ttft", "9"], "t.csv"),
        (["40x8", "--slo-ttft", "9", "--validation", "cost.json"], "schema_version"),
    ],
)
def test_misuse_ends_with_status_two_and_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--requests", "8", "--itl-target", "0", "--prefill-rows-per-step", "0"]
    assert main(["plan", *words, *small, "--profile", "cost.json", "--jobs", "1"]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert [line for line in told.splitlines() if line.startswith("arriero: ")] == [told.splitlines()[-1]]
    assert not Path(".artifacts").exists()


def test_a_plan_that_exists_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.json").write_text("mine")
    assert main(["plan", "40x8", *FEW, *GOOD, "--profile", "cost.json", "--out", "plan.json"]) == 2
    assert "plan.json: exists already" in capsys.readouterr().err
    assert Path("plan.json").read_text() == "mine"


def test_a_configuration_holds_what_is_not_usual_in_a_form_that_is_read_back(tmp_path: Path) -> None:
    config = resolve({"model": 'odd "name"\\x.gguf', "policy": "deadline", "itl_target": 90, "engine_cpus": (0, 2)})
    path = tmp_path / "c.toml"
    path.write_text(as_toml(settings_of(config, frozenset({"sequences"})), ("one", "two")))
    assert path.read_text().startswith("# one\n# two\n\n")
    assert "sequences = 8" in path.read_text()
    assert resolve(from_toml(path)) == config
