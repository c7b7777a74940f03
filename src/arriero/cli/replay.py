"""`arriero sim replay JOURNAL`: repeats every decision of a journal, or names the first that comes out otherwise."""

from collections.abc import Sequence
from pathlib import Path

from arriero.cli.sources import make_parser
from arriero.sim.replay import ReplayReport, replay_journal


def main(arguments: Sequence[str]) -> int:
    """Replay one file and say what was repeated; the exit status.

    Raises:
        BadJournal: it cannot be replayed. ReplayDiverged: a decision differs.
    """
    parser = make_parser("sim replay", "Repeat every decision of a journal with the scheduler of this arriero.")
    parser.add_argument("journal", metavar="JOURNAL", help="a file that serve --journal has written")
    parser.add_argument("--check", action="store_true", help="verify every invariant after every step; slow")
    flags = parser.parse_args(arguments)
    print(summary(replay_journal(Path(flags.journal), check=flags.check)))
    return 0


def summary(report: ReplayReport) -> str:
    """The report as one line."""
    text = (
        f"every decision repeated: {_counted(report.steps, 'step')}, {_counted(report.requests, 'request')}, "
        f"{_counted(report.cancels, 'cancel')} in {_counted(report.runs, 'run')}"
    )
    return f"{text}; {report.unfinished} of them without an end record" if report.unfinished else text


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
