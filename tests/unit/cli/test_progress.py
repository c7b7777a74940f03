"""Progress is quiet about what is short, and says that what is long is alive."""

import io
import threading

import pytest

from arriero.cli import progress
from arriero.cli.progress import Progress


class Heard(io.StringIO):
    """Tells when something was written."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def flush(self) -> None:
        self.written.set()


def test_what_is_short_is_not_mentioned() -> None:
    stream = io.StringIO()
    with Progress("loading", stream):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("terminal", "told"), [(False, "loading ... 0 s\n"), (True, "\rloading ... 0 s")])
def test_what_is_long_is_told(monkeypatch: pytest.MonkeyPatch, terminal: bool, told: str) -> None:  # noqa: FBT001
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    stream = Heard(terminal=terminal)
    with Progress("loading", stream):
        assert stream.written.wait(timeout=30)
    assert stream.getvalue().startswith(told)
    assert stream.getvalue().endswith("\r\033[K" if terminal else "s\n")
