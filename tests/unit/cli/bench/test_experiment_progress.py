import io

from arriero.cli.bench.experiment_progress import told


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_file_gets_a_line_now_and_then() -> None:
    now, stream = 0.0, io.StringIO()
    with told("holes", stream, lambda: now) as tell:
        tell("round 1")
        now = 9.0
        tell("round 2")
        now = 10.0
        tell("round 3")
    assert stream.getvalue().splitlines() == ["holes: round 1", "holes: round 3"]


def test_a_terminal_shows_what_is_done_now() -> None:
    stream = Terminal()
    with told("holes", stream) as tell:
        tell("round 1")
    assert "holes" in stream.getvalue()
