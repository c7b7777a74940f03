"""`arriero sim validate` on a backend without a model, as quick as it can be."""

import json
import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.cli.simulation.validate import status_of, summary_lines
from arriero.metrics.validity import Flag
from arriero.record.validation import Decisions, read_validation
from tests.unit.record.validation_files import load, validation

SMALL = (
    "--backend", "synthetic", "--sequences", "2", "--ctx-size", "512", "--batch", "16", "--micro-batch", "16",
)  # fmt: skip
QUICK = ("--workloads", "chat", "--requests", "4", "--look", "0", "--busy-ok")


def make_quick(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """A formula that takes a fifth of a millisecond a step, and no settings or kept profiles around."""
    patch.delenv("ARRIERO_CONFIG", raising=False)
    patch.setenv("ARRIERO_PROFILES", str(folder / "kept"))
    # in the one module that reads them: a copy that another one takes while they are changed would outlive the test
    patch.setattr("arriero.cli.loading.SYNTHETIC_STEP_S", 0.000_2)
    patch.setattr("arriero.cli.loading.SYNTHETIC_ROW_S", 0.000_01)


@contextmanager
def logs_kept() -> Generator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    make_quick(monkeypatch, tmp_path)
    with logs_kept():
        yield


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("validate")
    path = folder / "cost.json"
    words = ["calibrate", *SMALL, "--threads", "1", "--seconds", "0.05", "--busy-ok", "--out", str(path)]
    with pytest.MonkeyPatch.context() as patch, logs_kept():
        make_quick(patch, folder)
        assert main(words) == 0
    return path


def test_one_command_writes_three_files(profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "v"
    words = ["sim", "validate", *SMALL, *QUICK, "--threads", "1", "--profile", str(profile), "--out", str(out)]
    status = main(words)
    found = read_validation(out / "validation.json")
    assert status == (3 if found.validity.flag is Flag.INVALID else 0)
    assert [(each.workload, str(each.level)) for each in found.loads] == [
        ("chat", "below"), ("chat", "at"), ("chat", "above"),
    ]  # fmt: skip
    assert all(each.difference is None and each.requests == 4 for load in found.loads for each in load.decisions)
    assert all(len(each.measured) == 2 for load in found.loads for each in load.compared)
    assert found.profile.file == "cost.json"
    assert found.target.model == "synthetic"
    assert "# Simulated against measured: synthetic" in (out / "validation.md").read_text()
    assert "<html" in (out / "validation.html").read_text()
    printed = capsys.readouterr().out
    assert "decisions: the same in" in printed
    assert "capacity of chat" in printed
    assert json.loads((out / "validation.json").read_text())["schema_version"] == "arriero-validation-v1"
    assert main(words) == 2, "what exists is kept"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no cost profile of this model, machine and context; make one with: arriero calibrate"),
        (["--profile", "nowhere.json"], "nowhere.json"),
        (["--workloads", "chats"], "'chats' is none; use chat, long, mixed"),
        (["--runs", "1"], "use 2 or more"),
        (["--seconds", "x"], "x is no number"),
        (["--peer", "http://127.0.0.1:9"], "no server answers there"),
    ],
)
def test_misuse_is_one_line(
    words: list[str], says: str, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    given = [] if not words or "--profile" in words else ["--profile", str(profile)]
    assert main(["sim", "validate", *SMALL, *QUICK, "--threads", "1", *given, *words, "--out", "v"]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("arriero: ")]
    assert len(told) == 1
    assert says in told[0]
    assert not Path("v").exists()


def test_the_exit_status_says_what_a_validation_is_worth() -> None:
    good = validation()
    assert status_of(good) in {0, 3}
    differs = load(decisions=(Decisions(steps=3, requests=1, difference="step 2: rows 1"),))
    assert status_of(validation(loads=(differs,))) == 1
    assert summary_lines(validation(loads=(differs,)))[-1].endswith("first: step 2: rows 1")


def test_errors_stand_before_their_noise() -> None:
    lines = summary_lines(validation())
    assert "TTFT p50" in lines[0]
    assert "+10.0% (18.2%)" in lines[1]
    said = "goals: 3 of 6 met, 6 of 6 at the machine's own speed; missed: chat, below: output_tokens_per_s rate"
    assert lines[-2].startswith(said)
    assert lines[-1] == "decisions: the same in 186 steps of 6 runs"
