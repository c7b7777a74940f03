"""The journal of a simulated run: the records of the live engine, made by the same writer."""

from collections.abc import Iterable, Iterator

from arriero.core.ids import Time
from arriero.core.plan import Counted
from arriero.record.journal import JournalEnd, JournalLines, JournalStep
from arriero.record.journal_schema import TimeLine
from arriero.record.journal_setup import Setup
from arriero.sim.simulator import Cancellation, SimulatedStep


def journal_lines(
    steps: Iterable[SimulatedStep], setup: Setup, time_line: TimeLine = TimeLine.MICROSECONDS
) -> Iterator[bytes]:
    """The lines, without their ends, of a run whose scheduler was built from this setup."""
    lines = JournalLines()
    yield lines.start(setup, time_line)
    ended_at: Time = 0
    for step in steps:
        ended_at = step.ended_at
        yield from lines.step(_journal_step(step))
    yield from lines.end(JournalEnd(ended_at=ended_at))


def _journal_step(step: SimulatedStep) -> JournalStep:
    has_rows = step.outcome is not None
    assert not isinstance(step.outcome, Counted), "a journal is made of single steps and their tokens"
    return JournalStep(
        messages=tuple(each.target if isinstance(each, Cancellation) else each.request for each in step.messages),
        plan=step.plan,
        outcome=step.outcome,
        events=step.events,
        began_at=step.began_at,
        committed_at=step.ended_at if has_rows else None,
        ended_at=step.ended_at,
        decode_time=step.ended_at - step.began_at,
    )
