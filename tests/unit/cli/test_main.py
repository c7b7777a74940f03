"""`arriero` finds the command, and every mistake ends with one line and status 2."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arriero import __version__
from arriero.cli.main import COMMANDS, main


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


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("arriero: ")
    assert told.err.count("\n") == 1
    return told.err.removeprefix("arriero: ").rstrip()


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command.name in text and command.says in text for command in COMMANDS)


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_a_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"arriero {command}" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"arriero {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no command given; see arriero --help"),
        (["serv"], "serv: no such command; did you mean serve?"),
        (["dance"], "dance: no such command; use serve, generate"),
        (["--verbose"], "unrecognized arguments: --verbose; see arriero --help"),
        (["gate", "--placement", "moon"], "argument --placement: invalid choice: 'moon'"),
        (["gate", "run", "--budgets", "0"], "--budgets 0: 0 is too low; use 1 or more"),
        (["generate"], "the following arguments are required: PROMPT; see arriero generate --help"),
        (["generate", "hi", "--temperature", "-1"], "--temperature -1: too low; use 0 or more"),
        (["serve", "--ctx-size", "100"], "--ctx-size 100: too small"),
        (["serve", "--model", "/no/such.gguf"], "--model /no/such.gguf: "),
        (["serve", "--host", "no such host"], "--host no such host: no such address"),
        (["serve", "--diagnostics", "/no/such/file"], "--diagnostics /no/such/file: no such file or directory"),
        (["serve", "--ssl-keyfile", "/no", "--ssl-certfile", "/no"], "--ssl-certfile /no: cannot be read"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    if words[:1] == ["serve"]:
        words = [*words, "--port", "0"]
    assert complaint(capsys, *words).startswith(message)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_standard_output_is_one_line_and_status_2() -> None:
    words = ["sim", "mixed-decode", "--workload", "A", "--cap", "4"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "arriero", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "arriero: the output cannot be written (no space left on device); make room\n"


@pytest.mark.perf
@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_the_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    code = f"import sys; from arriero.cli.main import main; main(['{command}', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert loaded.isdisjoint({"numpy", "llama_cpp", "starlette", "uvicorn", "rich", "jinja2", "msgspec"})
