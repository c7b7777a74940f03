import json
from argparse import Namespace
from pathlib import Path

import pytest

from arriero.cli.lab import ab
from arriero.cli.lab.ab_flags import metric_of, options_of, plan_of, variants_of
from arriero.core.errors import ConfigError, DataError
from arriero.lab.ab.variants import Program, Worker
from arriero.record.cpu_lab.ab_run import RuleSet
from tests.unit.lab.ab.runs import SCRIPT


def flags(*words: str) -> Namespace:
    return ab._parser().parse_args(words)


def worker(side: str, *words: str) -> Worker:
    found = variants_of(flags(*words))[side].target  # type: ignore[index]
    assert isinstance(found, Worker)
    return found


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


# ── grammar ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_settings_of_a_side_come_on_top_of_those_of_both(model: str) -> None:
    words = ("--both", f"model={model},threads=1", "--b", "threads=2,kv=q8_0", "--b", "flash-attention=on")
    a, b = worker("a", *words).options, worker("b", *words).options
    assert (a.model, a.threads, a.kv_key, a.prompt_tokens, a.generated_tokens, a.greedy_tokens) == (
        model,
        1,
        "f16",
        512,
        64,
        32,
    )
    assert (b.model, b.threads, b.kv_key, b.kv_value, b.flash_attention) == (model, 2, "q8_0", "q8_0", "on")


def test_a_side_is_named_by_what_is_particular_about_it(model: str) -> None:
    found = variants_of(flags("--both", f"model={model}", "--b", "threads=1", "--b-env", "X=/some/where/y.so"))
    assert (found["a"].name, found["b"].name) == ("A", "threads=1, X=y.so")
    assert found["b"].environment == {"X": "/some/where/y.so"}
    named = variants_of(flags("--both", f"model={model}", "--b", "threads=1", "--b-name", "one"))
    assert named["b"].name == "one"


def test_commands_are_split_as_a_shell_would_and_never_given_to_one() -> None:
    found = variants_of(
        flags("--a-command", "sort -n 'a b'", "--b-command", "sort", "--metric", "x.y:up", "--metric", "duration_s")
    )
    assert found["a"].target == Program(words=("sort", "-n", "a b"), keys=("x.y",))


def test_aa_makes_b_of_a(model: str) -> None:
    found = variants_of(flags("--aa", "--both", f"model={model}", "--a-env", "X=1"))
    assert found["b"].target == found["a"].target
    assert found["b"].environment == {"X": "1"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--a", "thread=2", "--b", "threads=1"), "--a thread=2: no such setting; did you mean threads"),
        (("--a", "threads=two", "--b", "threads=1"), "--a threads=two: expected `int`, got `str`; mend it"),
        (("--a", "threads=0", "--b", "threads=1"), "--a threads=0: expected `int` >= 1; mend it"),
        (("--both", "threads=two", "--b", "batch=64"), "--both threads=two: expected `int`, got `str`; mend it"),
        (("--a", "kv=q9", "--b", "threads=1"), "--a kv_key=q9: invalid enum value 'q9'; mend it"),
        (("--a", "threads", "--b", "threads=1"), "--a threads: no setting; write NAME=VALUE"),
        (("--a-env", "=1", "--b", "threads=1"), "--a-env =1: no setting; write NAME=VALUE"),
        (("--a", "threads=1", "--b", "threads=1"), "--b: nothing differs between the sides"),
        (("--aa", "--b", "threads=1"), "--aa: B is A, so leave out"),
        (("--a-command", "true"), "--b-command: give what A is compared with"),
        (("--a-command", "true", "--b-command", "'"), "--b-command: no closing quotation; close the quote"),
        (("--a-command", "true", "--b-command", ""), "--b-command: empty; give a command"),
        (("--a-command", "true", "--a", "threads=1", "--b-command", "x"), "--a-command: is run as it stands"),
    ],
)
def test_what_cannot_work_is_one_line(model: str, words: tuple[str, ...], says: str) -> None:
    given = words if any("command" in word for word in words) else ("--both", f"model={model}", *words)
    with pytest.raises(ConfigError) as caught:
        variants_of(flags(*given))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_usual_plan_is_the_published_one_with_as_many_a_a_pairs() -> None:
    plan = plan_of(flags("--a", "threads=1"))
    assert (plan.num_pairs, plan.num_aa_pairs, plan.num_warm_ups, plan.seed, plan.cpus) == (20, 20, 3, 8081, None)
    assert (plan.rules, plan.num_looks, plan.margin) == (RuleSet.ARRIERO, 1, None)
    quick = plan_of(flags("--quick", "--least-difference", "2%", "--cpus", "0", "--aa-pairs", "0"))
    assert (quick.num_pairs, quick.num_aa_pairs, quick.num_warm_ups, quick.margin, quick.cpus) == (8, 0, 1, 0.02, (0,))


def test_which_way_a_metric_is_better() -> None:
    assert metric_of("tokens_per_s").higher_is_better is True
    assert metric_of("load_ms").higher_is_better is False
    assert (metric_of("a.b:down").name, metric_of("a.b:down").higher_is_better) == ("a.b", False)
    for word in ("score", "score:best", ":up"):
        with pytest.raises(ConfigError, match="is more of it better or worse"):
            metric_of(word)


def test_flags_about_a_run_that_goes_on_need_one() -> None:
    with pytest.raises(ConfigError, match="--force: is about a run that goes on"):
        options_of(flags("--force"))
    assert options_of(flags("--resume", "--repair")).repair is True
    with pytest.raises(ConfigError, match="--timeout 0: a run needs some time"):
        plan_of(flags("--timeout", "0"))
    with pytest.raises(ConfigError, match="--cpus 999: CPU 999 is not among"):
        plan_of(flags("--cpus", "999"))


# ── whole runs of small programs ────────────────────────────────────────────────────────────────────────────────────


def words_for(folder: Path, *levels: int) -> list[str]:
    script = folder / "print.sh"
    script.write_text(SCRIPT)
    commands = [f"/bin/sh {script} {level}" for level in levels]
    given = [
        "--a-command",
        commands[0],
        "--metric",
        "rate:up",
        "--quick",
        "--pairs",
        "6",
        "--aa-pairs",
        "3",
        "--out",
        str(folder / "out"),
    ]
    return [*given, "--b-command", commands[1]] if len(commands) > 1 else [*given, "--aa"]


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watching the machine takes half a second a run."""
    monkeypatch.setattr("arriero.lab.machine.load_samples.WATCH_S", 0.0)
    monkeypatch.setattr("arriero.lab.machine.load_samples.sample_conditions", lambda: None)
    monkeypatch.setattr("arriero.record.machine_load.busy_now", lambda: None)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take a second."""
    monkeypatch.setattr(ab, "_report", lambda *_: None)


@pytest.mark.usefixtures("unwatched")
def test_a_comparison_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = words_for(tmp_path, 50, 60)
    assert ab.main(words) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("POSITIVE  END-TO-END  B against A\n")
    assert "[1/20] warm_up:0:a begins" in shown.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"manifest.json", "run.jsonl", "run-summary.json", "ab.json", "README.md", "index.html"} <= names
    assert str(tmp_path) not in (tmp_path / "out" / "ab.json").read_text()


@pytest.mark.usefixtures("unwatched", "undrawn")
def test_a_run_that_is_there_is_gone_on_with_or_judged_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_for(tmp_path, 50, 60)
    assert ab.main(words) == 0
    with pytest.raises(DataError, match="holds a run already"):
        ab.main(words)
    capsys.readouterr()
    assert ab.main([*words, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["word"] == "POSITIVE"
    data = (tmp_path / "out" / "ab.json").read_bytes()
    assert ab.main(["--recompute", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "ab.json").read_bytes() == data


@pytest.mark.usefixtures("unwatched", "undrawn")
def test_status_says_the_verdict(tmp_path: Path) -> None:
    assert ab.main(words_for(tmp_path, 60, 50)) == 5
    other = tmp_path / "other"
    other.mkdir()
    assert ab.main(words_for(other, 50)) == 0  # an A/A in which nothing was told apart


@pytest.mark.usefixtures("unwatched", "undrawn")
def test_a_failed_run_is_status_1_and_names_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--a-command", "false", "--b-command", "true", "--quick", "--out", str(tmp_path / "out")]
    assert ab.main(words) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("FAILED  END-TO-END")
    assert "warm_up:0:a: ended with status 1" in shown.err
