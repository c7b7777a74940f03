"""`arriero calibrate` on a backend without a model."""

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from arriero.cli import calibrate
from arriero.cli.calibrate_progress import told
from arriero.cli.main import main
from arriero.costmodel.passes import Stretch
from arriero.record.cost_profile import cost_of, read_cost_profile

SMALL = ("--backend", "synthetic", "--sequences", "2", "--ctx-size", "512", "--batch", "16", "--micro-batch", "16")


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARRIERO_CONFIG", raising=False)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibrate") / "profile.json"
    assert main(["calibrate", *SMALL, "--threads", "1,3", "--seconds", "0.5", "--busy-ok", "--out", str(path)]) == 0
    return path


def test_it_writes_a_profile_that_predicts(profile: Path) -> None:
    found = read_cost_profile(profile)
    assert [each.threads for each in found.passes] == [1, 3]
    assert (found.threads.decode, found.threads.prefill) == (3, 3)
    assert found.fingerprint.model == {"kind": "a formula"}
    assert found.fingerprint.context["KV layout"] == "separate"
    assert found.measuring.num_samples > 100
    # 4 ms and half a millisecond a row, on a clock that no busy machine can hold up
    cost = cost_of(found)
    assert cost.decode_time([Stretch(0, 10, 1, wants_logits=True)]) == pytest.approx(4500, rel=0.01)


def test_it_says_how_well_it_fits(profile: Path) -> None:
    lines = list(calibrate.summary_lines(read_cost_profile(profile)))
    assert lines[0].startswith("synthetic: ")
    assert "valid for passes of up to 16 rows, 2 sequences, " in lines[1]
    assert lines[2].startswith("host: ")
    assert lines[3].split() == ["threads", "steps", "shapes", "n", "bias", "typical", "p90", "worst", "noise"]
    assert any("decode" in line and "fitted" in line for line in lines)
    assert any("decode" in line and "new" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--threads", "0"], "--threads 0: 0 is too low; use 1 or more"),
        (["--threads", "two"], "--threads two: two is no number"),
        (["--seconds", "0"], "--seconds 0: "),
        (["--ctx-size", "511"], "--ctx-size 511: too small"),
        (["--dance"], "unrecognized arguments: --dance; see arriero calibrate --help"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", *SMALL, "--busy-ok", *words]) == 2
    told_line = capsys.readouterr().err
    assert message in told_line
    assert told_line.count("\n") == 1


def test_a_profile_that_exists_is_not_replaced_unasked(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = profile.read_bytes()
    assert main(["calibrate", *SMALL, "--busy-ok", "--out", str(profile)]) == 2
    assert "exists already; name another file, or replace it with --force" in capsys.readouterr().err
    assert profile.read_bytes() == before


def test_a_busy_machine_is_refused_or_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("arriero.record.machine_load.busy_now", lambda: "the machine is busy: others use 1.00 cores")
    out = tmp_path / "profile.json"
    words = ["calibrate", *SMALL, "--threads", "1", "--seconds", "0.1", "--out", str(out)]
    assert main(words) == 2
    assert "others use 1.00 cores; wait, or use --busy-ok for a doubtful profile" in capsys.readouterr().err
    assert not out.exists()
    assert main([*words, "--busy-ok"]) == 0
    assert read_cost_profile(out).measuring.busy == "the machine is busy: others use 1.00 cores"
    assert "doubtful: the machine is busy" in capsys.readouterr().out


def test_progress_is_lines_where_there_is_no_terminal() -> None:
    now, stream = 0.0, io.StringIO()
    with told("calibrating small", stream, lambda: now) as tell:
        tell(0.0, "decode 1, near")
        tell(0.1, "decode 2, near")
        now = 10.0
        tell(0.5, "prefill 64, near")
    assert stream.getvalue().splitlines() == [
        "calibrating small: 0%, decode 1, near",
        "calibrating small: 50%, prefill 64, near",
    ]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_terminal_drawn_seldom() -> None:
    now, stream = 0.0, Terminal()
    with told("calibrating small", stream, lambda: now) as tell:
        for step in range(100):
            now = step / 10
            tell(step / 100, f"shape {step}")
    drawn = {step for step in range(100) if f"shape {step}" in stream.getvalue()}
    assert 5 < len(drawn) < 30
