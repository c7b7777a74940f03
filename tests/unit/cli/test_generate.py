"""`arriero generate` streams one answer, and Ctrl-C ends it in order."""

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from arriero.cli.main import main

GENERATE = ["generate", "--backend", "synthetic", "--ignore-eos"]


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def said(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main([*GENERATE, *flags]) == 0
    return capsys.readouterr().out.removesuffix("\n")


def test_an_answer_has_the_length_asked_for_and_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    first = said(capsys, "hello", "--max-tokens", "12")
    assert len(first) == 12  # one printable byte a token
    assert said(capsys, "hello", "--max-tokens", "12") == first
    assert said(capsys, "hullo", "--max-tokens", "12") != first


def test_the_seed_decides_a_drawn_answer(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = ["hello", "--max-tokens", "12", "--temperature", "1.5", "--seed"]
    assert said(capsys, *drawn, "1") == said(capsys, *drawn, "1")
    assert said(capsys, *drawn, "1") != said(capsys, *drawn, "2")


def test_a_stop_string_ends_the_answer_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    whole = said(capsys, "hello", "--max-tokens", "12")
    assert said(capsys, "hello", "--max-tokens", "12", "--stop", whole[5:7]) == whole[:5]


def test_the_prompt_can_come_from_standard_input() -> None:
    command = [sys.executable, "-m", "arriero", *GENERATE, "-", "--max-tokens", "4"]
    done = subprocess.run(command, input="hello", capture_output=True, text=True, check=True, timeout=60)
    assert len(done.stdout) == 5
    assert "[5 + 4 tokens in" in done.stderr


def test_ctrl_c_cancels_without_a_traceback() -> None:
    command = [sys.executable, "-m", "arriero", *GENERATE, "hello", "--max-tokens", "3000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"ended by cancelled" in err
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max-tokens", "5000"], "arriero: the prompt has 5 tokens and 5000 may be generated"),
        (["--raw", "--system", "be brief"], "arriero: --system: there is no system message without the chat template"),
        (["--ctx-size", "100"], "arriero: --ctx-size 100: too small"),
        (["--top-p", "0"], "arriero: top_p must be above 0"),
    ],
)
def test_what_cannot_work_is_one_line(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GENERATE, "hello", *flags]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(message)
    assert told.err.count("\n") == 1
