"""The same rows twice, step by step: on the ids that an engine gave them, and on ids without a hole.

A recorded run is computed again on two contexts of one model, which take turns in going first. One gets the recorded
operations and rows as they are; moves of running sequences are part of its time. In the other one each request has the
lowest id that leaves no hole, and whatever it takes to move it there is outside of the time. So the two differ by the
ids alone, and whatever else the machine does meanwhile hits both.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from arriero.backend.protocol import Backend
from arriero.core.errors import ConfigError
from arriero.core.events import DropSequence, KvOp, MoveSequence
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.engine.observer import StepRecord
from arriero.scheduler.holes import num_breaks


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPair:
    """One step, computed twice; nanoseconds.

    Attributes:
        num_rows: of the step.
        num_breaks: places in its ids where one is left out.
        as_recorded: operations and decode call on the recorded ids.
        contiguous: the decode call on ids without a hole.
        num_moves: running sequences that the engine moved before it.
    """

    num_rows: int
    num_breaks: int
    as_recorded: int
    contiguous: int
    num_moves: int


class _Contiguous:
    """Gives each request the lowest id, and closes holes by moving the sequence with the highest one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ids: dict[RequestId, SequenceId] = {}

    def settle(self, rows: Sequence[Row]) -> list[Row]:
        """The rows on ids without a hole, ascending; those who have gone are dropped first."""
        present = {row.request.request_id for row in rows}
        for request_id in [each for each in self._ids if each not in present]:
            _apply(self._backend, DropSequence(self._ids.pop(request_id)))
        for request_id, highest in sorted(self._ids.items(), key=lambda item: -item[1]):
            hole = self._lowest()
            if hole > highest:
                break
            _apply(self._backend, MoveSequence(highest, hole))
            self._ids[request_id] = hole
        for row in rows:
            self._ids.setdefault(row.request.request_id, self._lowest())
        return sorted((_on(row, self._ids[row.request.request_id]) for row in rows), key=lambda row: row.sequence_id)

    def _lowest(self) -> SequenceId:
        taken = set(self._ids.values())
        return next(SequenceId(each) for each in range(len(taken) + 1) if each not in taken)


def replay(
    records: Sequence[StepRecord],
    recorded: Backend,
    contiguous: Backend,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> list[StepPair]:
    """Compute a run twice; both contexts are empty before, and of the shape that the engine had.

    Raises:
        ConfigError: a request of the run was preempted, failed or reused something, so that its rows cannot be
            computed again as they stand; or an operation is refused.
    """
    other = _Contiguous(contiguous)
    pairs: list[StepPair] = []
    held: dict[RequestId, int] = {}
    for number, record in enumerate(records):
        before, after = _ops(record)
        rows = [row for row in record.plan.rows if row.num_rows]
        if not rows:
            _each(recorded, (*before, *after))
            continue
        _check(rows, held)
        moved = other.settle(rows)
        times: dict[bool, int] = {}
        for is_recorded in (True, False) if number % 2 else (False, True):
            began_at = clock()
            if is_recorded:
                _each(recorded, before)
                recorded.decode(rows)
                _each(recorded, after)
            else:
                contiguous.decode(moved)
            times[is_recorded] = clock() - began_at
        pairs.append(
            StepPair(
                num_rows=sum(row.num_rows for row in rows),
                num_breaks=num_breaks([row.sequence_id for row in rows]),
                as_recorded=times[True],
                contiguous=times[False],
                num_moves=sum(isinstance(op, MoveSequence) for op in before),
            )
        )
    return pairs


def _ops(record: StepRecord) -> tuple[list[KvOp], list[KvOp]]:
    """What planning ordered, which comes before the rows, and what their outcome did."""
    before = [event for event in record.plan.events if isinstance(event, KvOp)]
    every = [event for event in record.events if isinstance(event, KvOp)]
    return before, [op for op in every if not any(op is each for each in before)]


def _check(rows: Sequence[Row], held: dict[RequestId, int]) -> None:
    """Each request goes on where it was, or begins at 0."""
    for row in rows:
        request_id = row.request.request_id
        if row.start != held.get(request_id, 0):
            raise ConfigError(
                f"request {request_id} goes on at {row.start} and {held.get(request_id, 0)} positions are computed: "
                "a run with preemption or reuse cannot be computed again; use more KV cells, and prompts that are new"
            )
        held[request_id] = row.start + row.num_rows


def _on(row: Row, sequence_id: SequenceId) -> Row:
    if isinstance(row, PrefillChunk):
        return replace(row, sequence_id=sequence_id)
    return DecodeRow(row.request, sequence_id, row.start, row.token)


def _each(backend: Backend, ops: Sequence[KvOp]) -> None:
    for op in ops:
        _apply(backend, op)


def _apply(backend: Backend, op: KvOp) -> None:
    if not backend.apply(op):
        raise ConfigError(f"the context refuses {op}; this model's ids cannot be compared")
