"""Comparison: a record of a journal beside the decisions of a replay, and the first place at which they differ."""

from typing import NamedTuple, cast

import msgspec

from arriero.core.errors import ReplayDiverged
from arriero.core.events import Event
from arriero.core.plan import BatchPlan
from arriero.record.journal_parts import EventRow, PlanRow
from arriero.record.journal_rows import event_rows, plan_row


class Comparison:
    """The decisions of one record, met one verb after another."""

    def __init__(self, step: int, recorded: tuple[EventRow, ...], line: int) -> None:
        self._step = step
        self._recorded = recorded
        self._line = line
        self._num_met = 0

    def plan(self, recorded: PlanRow, replayed: BatchPlan) -> None:
        """Compare a plan without its events; a journal of an earlier version names no followers."""
        row = plan_row(replayed)
        if not recorded.followers:
            row = msgspec.structs.replace(row, followers=())
        self._compare("plan", recorded, row)

    def events(self, replayed: tuple[Event, ...]) -> None:
        """Compare the events of one verb with the next of the record."""
        rows = event_rows(replayed)
        for index, row in enumerate(rows, start=self._num_met):
            recorded = self._recorded[index] if index < len(self._recorded) else None
            self._compare(f"events[{index}]", recorded, row)
        self._num_met += len(rows)

    def end(self) -> None:
        """Nothing more may be recorded."""
        if self._num_met < len(self._recorded):
            self._compare(f"events[{self._num_met}]", self._recorded[self._num_met], None)

    def _compare(self, field: str, recorded: object, replayed: object) -> None:
        difference = first_difference(recorded, replayed, field)
        if difference is not None:
            where, one, other = difference
            raise ReplayDiverged(
                f"line {self._line}: step {self._step}: {where}: recorded {one}, replayed {other}",
                step=self._step,
                field=where,
                recorded=one,
                replayed=other,
                line=self._line,
            )


class Difference(NamedTuple):
    """Where, and what is there."""

    field: str  # such as rows[2].start
    recorded: str  # as JSON
    replayed: str


def first_difference(recorded: object, replayed: object, field: str) -> Difference | None:
    """The first one, in the order of the fields; None if both are equal.

    Args:
        recorded: a part of a record: structs, tuples of structs, plain values, or None where there is nothing.
        replayed: the same part, made anew.
        field: the name of the whole.
    """
    if recorded == replayed:
        return None
    return _inside(recorded, replayed, field) or Difference(field, _shown(recorded), _shown(replayed))


def _inside(recorded: object, replayed: object, field: str) -> Difference | None:
    """The first one inside two parts of the same kind; None if they are not."""
    if isinstance(recorded, tuple) and isinstance(replayed, tuple):
        return _between_rows(cast("tuple[object, ...]", recorded), cast("tuple[object, ...]", replayed), field)
    if isinstance(recorded, msgspec.Struct) and type(recorded) is type(replayed):
        for name in recorded.__struct_fields__:
            inner = first_difference(getattr(recorded, name), getattr(replayed, name), f"{field}.{name}")
            if inner is not None:
                return inner
    return None


def _between_rows(recorded: tuple[object, ...], replayed: tuple[object, ...], field: str) -> Difference | None:
    for index in range(max(len(recorded), len(replayed))):
        one = recorded[index] if index < len(recorded) else None
        other = replayed[index] if index < len(replayed) else None
        inner = first_difference(one, other, f"{field}[{index}]")
        if inner is not None:
            return inner
    return None


def _shown(value: object) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()
