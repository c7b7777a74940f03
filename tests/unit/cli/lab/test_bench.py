"""`arriero lab bench`, as somebody types it, over the fake program and a file that is hardly a model."""

import json
import os
import signal
import struct
import threading
from pathlib import Path

import pytest

from arriero.cli.main import main
from arriero.testing.fake_bench import Mode, read_calls, write_fake_bench

CONFIG = """\
executable: bin/llama-bench
output_directory: run
model: tiny.gguf
threads: [1, 2]
prompt_tokens: [64]
generated_tokens: [8]
batch_sizes: [512]
context_sizes: [128]
repetitions: 1
warmup_runs: 0
timeout_seconds: 20
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration, the fake program, and an empty GGUF file."""
    (tmp_path / "matrix.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(8))
    write_fake_bench(tmp_path / "bin")
    monkeypatch.setattr("arriero.lab.machine.load_samples.WATCH_S", 0.0)
    monkeypatch.setattr("arriero.lab.machine.load_samples.sample_conditions.__defaults__", (0.0,))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bench(*words: str) -> int:
    return main(["lab", "bench", *words])


def test_a_run_from_configuration_to_table_and_again_from_its_records(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("matrix.yaml", "--busy-ok") == 0
    shown = capsys.readouterr()
    assert "completed: 2 of 2 succeeded" in shown.out
    assert "MEASURED" in shown.out
    assert "[1/2]" in shown.err
    assert sorted(path.name for path in (folder / "run").iterdir()) == [
        "manifest.json", "normalized.csv", "normalized.json", "run-summary.json", "run.jsonl",
    ]  # fmt: skip
    before = (folder / "run/normalized.csv").read_bytes()
    assert bench("--recompute", "run") == 0
    assert (folder / "run/normalized.csv").read_bytes() == before
    assert bench("matrix.yaml", "--busy-ok") == 2
    assert "--resume" in capsys.readouterr().err
    assert bench("matrix.yaml", "--busy-ok", "--resume", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["summary"]["successful_invocations"] == len(told["table"]["rows"]) == 2


def test_a_program_beside_the_configuration_comes_before_one_of_that_name_in_the_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fake_bench(folder)
    (folder / "matrix.yaml").write_text(CONFIG.replace("bin/llama-bench", "llama-bench"), encoding="utf-8")
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert bench("matrix.yaml", "--busy-ok", "--no-sync") == 0
    assert len(read_calls(folder)) == 2


def test_a_failure_ends_with_status_1_and_can_be_retried(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_fake_bench(folder / "bin", {"p64-n8-t2": Mode.EXIT_ONCE})
    assert bench("matrix.yaml", "--busy-ok", "--no-sync") == 1
    assert "excluded: tiny:p64-n8-t2" in capsys.readouterr().out
    assert bench("matrix.yaml", "--busy-ok", "--no-sync", "--retry-failures") == 0


def test_a_quick_run_is_small_and_lies_beside_the_whole_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("matrix.yaml", "--busy-ok", "--quick") == 0
    assert "1 of 1 succeeded" in capsys.readouterr().out
    assert (folder / "run-quick").is_dir()
    assert not (folder / "run").exists()


def test_a_dry_run_shows_what_would_be_run_and_touches_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "tiny.gguf").unlink()
    assert bench("matrix.yaml", "--dry-run") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "1 models x 2 cases = 2 groups: 2 measured invocations and 0 warm-ups by llama-bench"
    assert shown[2].strip().startswith("bin/llama-bench -m tiny.gguf -t 1 -p 64 -n 8")
    assert bench("matrix.yaml", "--dry-run", "--executor", "in-process") == 0
    assert "arriero.lab.bench_worker" in capsys.readouterr().out
    assert not (folder / "run").exists()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_end_is_status_130_and_the_run_can_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    write_fake_bench(folder / "bin", {"p64-n8-t2": Mode.SILENT})
    stopper = threading.Thread(target=stop_during_the_second_call, args=(folder / "bin", number))
    stopper.start()
    assert bench("matrix.yaml", "--busy-ok", "--no-sync") == 130
    stopper.join()
    assert "--resume goes on" in capsys.readouterr().err
    summary = json.loads((folder / "run/run-summary.json").read_bytes())
    assert (summary["run_status"], summary["completed_invocations"]) == ("interrupted", 1)
    write_fake_bench(folder / "bin")
    assert bench("matrix.yaml", "--busy-ok", "--no-sync", "--resume") == 0


def stop_during_the_second_call(folder: Path, number: signal.Signals) -> None:
    """By then the command listens; a signal before that would end the tests."""
    paused = threading.Event()
    for _ in range(3000):
        if len(read_calls(folder)) == 2:
            os.kill(os.getpid(), number)
            return
        paused.wait(0.01)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "no configuration"),
        (("none.yaml",), "no such file"),
        (("matrix.yaml", "--busy-ok", "--force"), "--force"),
        (("matrix.yaml", "--busy-ok", "--executor", "smoke"), "smoke_fixture"),
        (("matrix.yaml", "--busy-ok", "--executor", "in-process", "--llama-bench", "x"), "--llama-bench"),
        (("matrix.yaml", "--busy-ok", "--llama-bench", "nowhere"), "no program"),
        (("--recompute", "bin"), "no run"),
    ],
)
def test_what_cannot_work_is_one_line_with_the_remedy(
    folder: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], what: str
) -> None:
    del folder
    assert bench(*words) == 2
    error = capsys.readouterr().err
    assert what in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "matrix.yaml: line 1: holds nothing"),
        ("# nothing but a remark\n", "matrix.yaml: line 1: holds nothing"),
        ("\0", "matrix.yaml: malformed YAML"),
        (CONFIG.replace("model: tiny.gguf", "model: bin"), "line 3: model: "),
        (CONFIG.replace("prompt_tokens: [64]", "prompt_tokens: [-64]"), "line 5: prompt_tokens[0]: "),
        (CONFIG.replace("output_directory: run", "output_directory: tiny.gguf"), "tiny.gguf: cannot be written"),
        (CONFIG.replace("executable: bin/llama-bench", "executable: tiny.gguf"), "no program that can be run"),
    ],
)
def test_files_and_folders_of_the_wrong_kind_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, what: str
) -> None:
    (folder / "matrix.yaml").write_text(text, encoding="utf-8")
    assert bench("matrix.yaml", "--busy-ok") == 2
    error = capsys.readouterr().err
    assert what in error
    assert error.count("\n") == 1
