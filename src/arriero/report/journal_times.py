"""JournalTimes: the moments of a journal's records on the line of the view.

A simulator writes equal decode steps as one record. These are steps of their own to a reader, and as they took equal
time, it knows when each was over.
"""

from array import array
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.record.journal_parts import SubmitRow
from arriero.record.journal_schema import StepRecord, TimeLine

_US: Final = MappingProxyType({TimeLine.MICROSECONDS: 1.0, TimeLine.MILLISECONDS: 1_000.0})


class StepTimes(NamedTuple):
    """One record; whole microseconds.

    Attributes:
        began_at: of the messages and the plan.
        computed_at: when the rows were computed, each time, eight bytes apiece; empty without rows.
        ended_at: after the last event was told.
    """

    began_at: int
    computed_at: "array[int]"
    ended_at: int

    @property
    def committed_at(self) -> int:
        """When the rows were taken over; the beginning of a record without rows."""
        return self.computed_at[-1] if self.computed_at else self.began_at

    @property
    def ends(self) -> "array[int]":
        """When each of its steps with rows was over; what is told of them comes after the last one."""
        return self.computed_at[:-1] + array("q", (self.ended_at,)) if self.computed_at else self.computed_at


class JournalTimes:
    """Counts from the first moment of one run: its first step, or an arrival before that."""

    def __init__(self, time_line: TimeLine) -> None:
        """`time_line` is that of the journal."""
        self._us = _US[time_line]
        self._origin: float | None = None

    def of(self, record: StepRecord) -> StepTimes:
        """The moments of the next record; the first one is where everything is counted from."""
        if self._origin is None:
            self._origin = min([record.began_at, *_arrivals(record)])
        return StepTimes(self.at(record.began_at), array("q", self._computed(record)), self.at(record.ended_at))

    def at(self, time: float) -> int:
        """A time of the journal; 0 if no record came before."""
        return 0 if self._origin is None else round((time - self._origin) * self._us)

    def _computed(self, record: StepRecord) -> Iterator[int]:
        began_at, committed_at = record.began_at, record.committed_at
        if record.outcome is None or committed_at is None:
            return
        times, duration = record.outcome.times, committed_at - began_at
        for number in range(1, times):
            yield self.at(began_at + duration * number / times)
        yield self.at(committed_at)


def _arrivals(record: StepRecord) -> Iterator[float]:
    return (message.arrival_at for message in record.messages if isinstance(message, SubmitRow))
