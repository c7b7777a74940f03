"""`arriero sim replay JOURNAL`: the same decisions again, or the first that differs."""

from collections.abc import Sequence
from pathlib import Path

from arriero.cli.progress import Progress
from arriero.cli.sources import make_parser


def main(arguments: Sequence[str]) -> int:
    """Replay every run in the file.

    Raises:
        BadJournal: it cannot be replayed. ReplayDiverged: a decision differs; the text says which.
    """
    from arriero.sim.replay import replay_journal

    parser = make_parser("sim replay", "Feed a journal to a fresh scheduler and compare every decision.")
    parser.add_argument("journal", metavar="JOURNAL", help="as written by `arriero serve --journal`")
    parser.add_argument("--check", action="store_true", help="verify every invariant after every step")
    flags = parser.parse_args(arguments)
    with Progress(f"replaying {flags.journal}"):
        report = replay_journal(Path(flags.journal), check=flags.check)
    print(
        f"{flags.journal}: identical: {report.runs} runs, {report.steps:,} steps, {report.requests:,} requests, "
        f"{report.cancels:,} cancels"
    )
    if report.unfinished:
        print(f"{report.unfinished} of the runs have no end record; what they hold was repeated")
    return 0
