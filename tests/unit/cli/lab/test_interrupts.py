"""A polite request to end, and what is said of it."""

import os
import signal
from pathlib import Path

import pytest

from arriero.cli.lab.interrupts import ended_as_interrupt, resumable


def test_a_polite_request_to_end_is_told_as_ctrl_c_and_only_inside() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_as_interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_whoever_stops_a_run_is_told_how_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), resumable(Path("runs/one")):
        os.kill(os.getpid(), signal.SIGTERM)
    assert capsys.readouterr().err == "stopped: what has ended is in runs/one; --resume goes on\n"
