import json
from pathlib import Path

import pytest

from arriero.cli.main import main
from tests.unit.lab.perf.fake_tools import fake_perf, fake_valgrind


@pytest.fixture
def perf(tmp_path: Path) -> str:
    return fake_perf(tmp_path).path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["lab", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_program_after_two_dashes_is_counted_and_reported(
    tmp_path: Path, perf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    words = ("perf", "stat", "--perf", perf, "--busy-ok", "--quick", "--events", "instructions,cycles")
    status, out, err = run(capsys, *words, "--out", str(folder), "--", "true")
    assert status == 0, err
    assert "instructions per cycle       2.5" in out
    assert "PROFILED" in out
    assert "probing 2 events" in err
    status, out, err = run(capsys, *words, "--out", str(folder), "--", "true")
    assert status == 2
    assert "holds a run already" in err
    status, out, _ = run(capsys, *words, "--out", str(folder), "--resume", "--json", "--", "true")
    assert status == 0
    assert json.loads(out)["counters"][0]["scope"] == "whole invocation"


def test_samples_are_reported_with_a_flame_graph_and_ranked_as_targets(
    tmp_path: Path, perf: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, report = tmp_path / "run", tmp_path / "report"
    words = ("perf", "record", "--perf", perf, "--busy-ok", "--quick", "--out", str(folder), "--", "true")
    status, out, err = run(capsys, *words)
    assert status == 0, err
    assert "vec_dot" in out
    status, out, err = run(capsys, "perf", "report", str(folder), "--out", str(report))
    assert status == 0, err
    assert list(report.glob("flame-true-*.svg"))
    assert (report / "index.html").exists()
    library = tmp_path / "libggml-cpu.so"
    library.write_bytes(b"\x7fELF")
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(tmp_path))
    status, out, err = run(capsys, "targets", str(folder), "--json")
    assert status == 0, err
    candidate = json.loads(out)["candidates"][0]
    assert (candidate["rejected_by"], candidate["reason"]) == ("kind", "it is no code of llama.cpp")


def test_a_failing_program_ends_with_status_1_and_its_words(
    tmp_path: Path, perf: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "perf",
        "stat",
        "--perf",
        perf,
        "--busy-ok",
        "--quick",
        "--events",
        "cycles",
        "--out",
        str(tmp_path / "run"),
    )
    status, out, _ = run(capsys, *words, "--", "false")
    assert status == 1
    assert "no figures of false:false" in out


def test_an_event_that_was_asked_for_and_is_not_supported_is_refused(
    tmp_path: Path, perf: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PERF", json.dumps({"cycles": "not supported"}))
    words = ("perf", "stat", "--perf", perf, "--busy-ok", "--events", "cycles", "--out", str(tmp_path / "run"))
    status, _, err = run(capsys, *words, "--", "true")
    assert status == 2
    assert "--events: cycles is unsupported" in err
    assert not (tmp_path / "run").exists()


def test_without_perf_a_probe_says_so_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "perf", "probe", "--perf", "no-such-perf")
    assert status == 1
    assert "no-such-perf: no such program" in out


def test_a_probe_can_be_kept_as_json(tmp_path: Path, perf: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "probe.json"
    words = ("perf", "probe", "--perf", perf, "--quick", "--events", "cycles", "--out", str(file))
    assert run(capsys, *words, "--json")[0] == 0
    assert json.loads(file.read_text())["events"][0]["kind"] == "supported"
    status, _, err = run(capsys, *words)
    assert status == 2
    assert "exists already" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("perf", "stat", "--threads", "none", "--perf", "PERF"), "--threads none"),
        (("perf", "stat", "--force", "--perf", "PERF"), "--force: goes on with a run; use it with --resume"),
        (("perf", "stat", "--model", "a.gguf", "--perf", "PERF", "--", "true"), "leave one of them out"),
        (("perf", "stat", "--prompt", "0", "--generate", "0", "--perf", "PERF"), "nothing would be computed"),
        (("perf", "stat", "--model", "none.gguf", "--perf", "PERF"), "none.gguf"),
        (("perf", "stat", "--library", "/nowhere", "--perf", "PERF"), "--library /nowhere: holds no libggml"),
        (
            ("perf", "stat", "--cpus", "99999", "--perf", "PERF", "--", "true"),
            "--cpus 99999: this process may not run on 99999",
        ),
        (
            ("perf", "callgrind", "--threads", "2"),
            "only the thread that calls llama_context::process_ubatch(*) is counted",
        ),
        (("perf", "callgrind", "--whole", "--inside", "f"), "leave --inside out"),
        (("perf", "nothing"), "no such verb"),
        (("perf", "report", "/nowhere"), "holds no run"),
        (("targets", "/nowhere"), "holds no"),
        (("asm", "nothing_like_it", "--library", "/nowhere"), "holds no libggml"),
        (("asm", "f", "--lines", "0"), "--lines 0"),
    ],
)
def test_what_cannot_work_is_one_line_with_the_remedy(
    words: tuple[str, ...], says: str, perf: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    tool = fake_valgrind(tmp_path).path if "callgrind" in words else perf
    monkeypatch.setenv("PATH", f"{Path(tool).parent}:/usr/bin:/bin")
    status, _, err = run(capsys, *(perf if word == "PERF" else word for word in words))
    assert status == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1
