"""The journal of a simulated run: the records of the live engine, made by the same writer."""

from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from arriero.core.ids import Time
from arriero.record.journal import JournalEnd, JournalLines, JournalMessage, JournalStep
from arriero.record.journal_schema import TimeLine
from arriero.record.journal_setup import Setup
from arriero.record.runs import KEPT_RUNS, KEPT_TOKENS
from arriero.sim.simulator import Cancellation, Message, Recalibration, SimulatedStep, Submission


class SimulationJournal:
    """Writes the journal of a run while it goes on."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        """`write` takes lines with their ends."""
        self._write = write

    def follow(
        self,
        steps: Iterable[SimulatedStep],
        setup: Setup,
        time_line: TimeLine = TimeLine.MICROSECONDS,
        *,
        max_runs: int = KEPT_RUNS,
        max_tokens: int = KEPT_TOKENS,
    ) -> Iterator[SimulatedStep]:
        """Pass the steps of one run on; the journal ends with them.

        Args:
            steps: of a scheduler that was built from `setup`.
            setup: of the scheduler.
            time_line: of the run.
            max_runs, max_tokens: what is kept to compare prompts with; where a prefix cache decides, all of it.
        """
        lines = JournalLines(max_runs=max_runs, max_tokens=max_tokens)
        self._write(lines.start(setup, time_line) + b"\n")
        ended_at: Time = 0
        for step in steps:
            ended_at = step.ended_at
            for line in lines.step(_journal_step(step)):
                self._write(line + b"\n")
            yield step
        for line in lines.end(JournalEnd(ended_at=ended_at)):
            self._write(line + b"\n")


def journal_lines(
    steps: Iterable[SimulatedStep], setup: Setup, time_line: TimeLine = TimeLine.MICROSECONDS
) -> Iterator[bytes]:
    """The lines, without their ends, of a run whose scheduler was built from this setup."""
    made: list[bytes] = []
    for _ in SimulationJournal(made.append).follow(steps, setup, time_line):
        yield from _taken(made)
    yield from _taken(made)


def _taken(made: list[bytes]) -> list[bytes]:
    lines = [line.removesuffix(b"\n") for line in made]
    made.clear()
    return lines


def _journal_step(step: SimulatedStep) -> JournalStep:
    has_rows = step.outcome is not None
    return JournalStep(
        messages=tuple(map(_journal_message, step.messages)),
        plan=step.plan,
        outcome=step.outcome,
        events=step.events,
        began_at=step.began_at,
        committed_at=step.ended_at if has_rows else None,
        ended_at=step.ended_at,
        decode_time=step.ended_at - step.began_at,
    )


def _journal_message(message: Message) -> JournalMessage:
    match message:
        case Submission(request):
            return request
        case Cancellation(target):
            return target
        case Recalibration(change):
            return change
        case _:
            assert_never(message)
