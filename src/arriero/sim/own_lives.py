"""OwnLives: what became of each request in arriero's own mode."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from arriero.core.events import Admitted, Event, Finished, Preempted, PrefixSource, Rejected
from arriero.core.plan import PrefillChunk
from arriero.core.request import CancelReason
from arriero.metrics.served import Outcome
from arriero.record.sim_rows import SimRequestRow
from arriero.sim.simulator import SimulatedStep
from arriero.workload.records import WorkloadRecord

LATE: Final = "no slot was free in time"
"""Why a request was refused that had been let in."""


class _Life:
    """One request; times in whole microseconds."""

    __slots__ = (
        "cached", "finished", "lost", "num_preemptions", "prefix", "reason", "recomputed", "record", "started", "times",
    )  # fmt: skip

    def __init__(self, record: WorkloadRecord) -> None:
        self.record = record
        self.started: int | None = None
        self.finished: int | None = None
        self.cached = 0
        self.prefix: PrefixSource | None = None
        self.lost: int | None = None  # computed tokens that the last preemption took, until it starts again
        self.recomputed = 0
        self.num_preemptions = 0
        self.reason: str | None = None
        self.times = array("q")

    @property
    def outcome(self) -> Outcome:
        if self.finished is not None:
            return Outcome.FINISHED
        return Outcome.UNFINISHED if self.reason is None else Outcome.REJECTED


class OwnLives:
    """Reads steps as they happen; eight bytes a token."""

    def __init__(self, ordered: Sequence[WorkloadRecord], *, is_looked_up: Callable[[WorkloadRecord], bool]) -> None:
        """`ordered` is by internal id, from 1; those that are looked up ask a prefix cache when they start."""
        self._lives = [_Life(record) for record in ordered]
        self._is_looked_up = is_looked_up

    def add(self, step: SimulatedStep) -> None:
        """Take over what a step did."""
        lives, ends, began_at = self._lives, step.ends, int(step.began_at)
        for event in step.events:
            self._note(event)
        end, is_single = int(step.ended_at), len(ends) == 1
        for row in step.plan.rows if ends else ():
            life = lives[row.request.request_id - 1]
            if type(row) is PrefillChunk:
                _resume(life, row, began_at)
                if not row.wants_logits:
                    continue
            if is_single:
                life.times.append(end)
            else:
                life.times.extend(map(int, ends))
        for event in step.events:
            if isinstance(event, Finished):
                _finish(lives[event.request.request_id - 1], event, end)

    def refuse(self, internal_id: int, reason: str) -> None:
        """A request was not let in."""
        self._lives[internal_id - 1].reason = reason

    def rows(self) -> Iterator[SimRequestRow]:
        """By internal id."""
        for number, life in enumerate(self._lives, start=1):
            yield self._row(number, life)

    def _note(self, event: Event) -> None:
        match event:
            case Admitted(request=request, prefix=prefix):
                life = self._lives[request.request_id - 1]
                if life.started is None:
                    life.prefix = prefix
            case Preempted(request_id=request_id, num_computed=num_computed):
                life = self._lives[request_id - 1]
                life.num_preemptions += 1
                life.lost = num_computed
            case Rejected(request=request, error=error):
                self._lives[request.request_id - 1].reason = str(error)
            case _:
                pass

    def _row(self, number: int, life: _Life) -> SimRequestRow:
        record, times = life.record, life.times.tolist()
        return SimRequestRow(
            arrival_at_us=record.arrival_time_us,
            cached_tokens=life.cached,
            finished_at_us=life.finished,
            first_token_at_us=times[0] if times else None,
            generated_tokens=len(times),
            internal_id=number,
            looked_up=life.started is not None and self._is_looked_up(record),
            max_new_tokens=record.max_new_tokens,
            outcome=life.outcome,
            preemptions=life.num_preemptions,
            prefix=life.prefix if life.started is not None else None,
            prefix_group=record.prefix_group,
            prompt_tokens=record.prompt_token_count,
            reason=life.reason,
            recomputed_tokens=life.recomputed,
            request_id=record.request_id,
            started_at_us=life.started,
            token_at_us=times,
            workload_class=record.workload_class,
        )


def _finish(life: _Life, event: Finished, end: int) -> None:
    """It has ended, or it never began in time, which is a refusal."""
    if event.cancel_reason is CancelReason.QUEUE_TIMEOUT:
        life.reason = LATE
    else:
        life.finished = end


def _resume(life: _Life, row: PrefillChunk, began_at: int) -> None:
    """Where the first rows after a start begin says how much came from the cache."""
    if life.started is None:
        life.started = began_at
        life.cached = row.start
    if life.lost is not None:
        life.recomputed += max(0, life.lost - row.start)
        life.lost = None
