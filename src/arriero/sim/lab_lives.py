"""LabLives: what became of each request of a run of the published lab."""

from array import array
from collections.abc import Iterator, Sequence
from operator import sub

from arriero.core.events import Finished
from arriero.core.plan import DecodeRow
from arriero.record.lab_rows import RequestRow, State, exact
from arriero.sim.simulator import SimulatedStep
from arriero.workload.records import WorkloadRecord


class _Life:
    """One request; times in whole microseconds."""

    __slots__ = ("admitted", "finished", "matched", "record", "scheduled", "times")

    def __init__(self, record: WorkloadRecord) -> None:
        self.record = record
        self.admitted: int | None = None
        self.finished: int | None = None
        self.matched = 0
        self.scheduled = 0
        self.times = array("q")


class LabLives:
    """Reads steps as they happen; eight bytes a token.

    Mostly everybody who has started gets a token in each step. Such steps are only noted, and a request takes over the
    times of all of them at once: when it ends, or when there is a step in which somebody gets none.
    """

    def __init__(self, ordered: Sequence[WorkloadRecord]) -> None:
        """`ordered` is by internal id, from 1."""
        self._lives = [_Life(record) for record in ordered]
        self._common = array("q")  # the ends of steps in which all who decode got a token
        self._since: dict[int, int] = {}  # who decodes, by index → the number of common steps before its own
        self.ended_at = 0

    def add(self, step: SimulatedStep) -> None:
        """Take over what a step did."""
        self.ended_at = int(step.ended_at)
        plan, ends = step.plan, step.ends
        if not ends:
            return
        if plan.shape.decode_rows == len(self._since):
            self._common.extend(map(int, ends))
        else:
            self._add_singly(step)
        if plan.shape.prefill_chunks:
            self._admit(step)
        for event in step.events:
            if type(event) is Finished:
                self._finish(event.request.request_id - 1)

    def rows(self) -> Iterator[RequestRow]:
        """By internal id."""
        self._take_over()
        for number, life in enumerate(self._lives, start=1):
            yield _row(number, life)

    def _admit(self, step: SimulatedStep) -> None:
        """A whole prompt is one chunk, in the step in which its request starts; it decodes from the next one on."""
        for row in step.plan.rows:
            if type(row) is not DecodeRow:
                index = row.request.request_id - 1
                life = self._lives[index]
                life.admitted = int(step.began_at)
                life.matched = row.start
                life.scheduled = row.num_rows
                self._since[index] = len(self._common)

    def _finish(self, index: int) -> None:
        life = self._lives[index]
        life.finished = self.ended_at
        life.times.extend(self._common[self._since.pop(index) :])
        if not self._since:
            del self._common[:]

    def _add_singly(self, step: SimulatedStep) -> None:
        self._take_over()
        times = array("q", map(int, step.ends))
        for row in step.plan.rows:
            if type(row) is DecodeRow:
                self._lives[row.request.request_id - 1].times.extend(times)

    def _take_over(self) -> None:
        """Everybody who decodes has its tokens; nothing is common any more."""
        if not self._common:
            return
        for index, since in self._since.items():
            self._lives[index].times.extend(self._common[since:])
        del self._common[:]
        self._since = dict.fromkeys(self._since, 0)

    @property
    def num_submitted(self) -> int:
        """Requests of the workload."""
        return len(self._lives)

    @property
    def num_completed(self) -> int:
        """Requests that have ended."""
        return sum(life.finished is not None for life in self._lives)

    @property
    def num_submitted_tokens(self) -> int:
        """Prompt tokens of the workload."""
        return sum(life.record.prompt_token_count for life in self._lives)

    @property
    def num_scheduled_tokens(self) -> int:
        """Prompt tokens that were computed."""
        return sum(life.scheduled for life in self._lives)

    @property
    def num_generated(self) -> int:
        """Tokens given."""
        return sum(len(life.times) for life in self._lives)


def _row(number: int, life: _Life) -> RequestRow:
    record, times = life.record, life.times.tolist()
    arrival, admitted, finished = record.arrival_time_us, life.admitted, life.finished
    first = times[0] if times else None
    tpot = None if finished is None or first is None or len(times) < 2 else (finished - first) / (len(times) - 1)
    return RequestRow(
        admitted_time_us=admitted,
        arrival_time_us=arrival,
        deadline_us=record.deadline_us,
        decode_token_times_us=times,
        end_to_end_latency_us=None if finished is None else finished - arrival,
        final_state=_state(life),
        finish_time_us=finished,
        first_token_time_us=first,
        generated_tokens=len(times),
        inter_token_latencies_us=list(map(sub, times[1:], times)),
        internal_id=number,
        max_new_tokens=record.max_new_tokens,
        metadata=dict(record.metadata or {}),
        prefix_group=record.prefix_group,
        prompt_tokens=None if record.prompt_tokens is None else record.prompt_tokens.to_list(),
        prompt_tokens_matched=life.matched,
        prompt_tokens_original=record.prompt_token_count,
        prompt_tokens_scheduled=life.scheduled,
        queue_delay_us=None if admitted is None else admitted - arrival,
        request_id=record.request_id,
        tpot_us=None if tpot is None else exact(tpot),
        ttft_us=None if first is None else first - arrival,
        workload_class=record.workload_class,
    )


def _state(life: _Life) -> State:
    if life.finished is not None:
        return "Finished"
    return "Waiting" if life.admitted is None else "Decoding"
