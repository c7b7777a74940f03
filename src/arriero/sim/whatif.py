"""What if: the same requests through any scheduler and on any cost of steps, in virtual time.

    setup    of a scheduler, as an engine or a journal describes it
    cost     of its steps
    asked    who asks for how much, when, and for how long an answer

The scheduler is built from the setup by the functions that build those of journals, so it decides as the one would that
the setup was taken from.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from arriero.core.events import CancelById, Finished, Rejected
from arriero.core.ids import RequestId, Time
from arriero.core.request import BlankTokens, CancelReason
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.models import CostModel, RoundedMicroseconds
from arriero.metrics.client_life import ClientLife
from arriero.record.journal_setup import CellsSetup, Setup
from arriero.scheduler.backlog import BacklogLimits
from arriero.sim.asked import Asked, arriving
from arriero.sim.composition import build_memory, build_scheduler
from arriero.sim.door import GuardedInbox
from arriero.sim.own_answers import KnownAnswers
from arriero.sim.simulator import (
    Answers,
    Cancellation,
    Message,
    NoAnswers,
    SimulatedStep,
    Simulator,
    Submission,
    always,
    never,
)
from arriero.sim.whatif_lives import SimulatedLives

_CANCEL: Final = 0
_ARRIVAL: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLoad:
    """What came of the requests.

    Attributes:
        lives: by the order of the asked; moments count from the start of the simulator's clock.
        num_steps: with rows.
        busy_us: in these steps.
        ended_at_us: when nothing was left to do.
        prefill_rows, decode_rows: computed.
        sequence_us: sequences with rows x time, summed.
        num_preemptions: how often a running request lost its place.
        outside: in what steps lay outside the calibrated range -> how many of them; empty if nobody looked.
    """

    lives: tuple[ClientLife, ...]
    num_steps: int
    busy_us: int
    ended_at_us: int
    prefill_rows: int
    decode_rows: int
    sequence_us: int
    num_preemptions: int
    outside: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def mean_running(self) -> float | None:
        """Sequences of a step, over busy time; None without a step."""
        return self.sequence_us / self.busy_us if self.busy_us else None


def simulate(
    setup: Setup,
    cost: CostModel,
    asked: Sequence[Asked],
    *,
    door: BacklogLimits | None = None,
    looks_outside: bool = False,
    check: bool = False,
) -> SimulatedLoad:
    """Run all of them to their ends.

    Args:
        setup: of the scheduler and its memory.
        cost: moves the clock.
        asked: ids from 1 in this order.
        door: bounds at the door; None lets everybody in, however many wait already.
        looks_outside: count the steps that lie outside the range of a calibrated cost; doubles what predictions take.
        check: verify every invariant after every step.

    Raises:
        ConfigError: the parts of the setup do not go together.
        TimeOverflow: the clock leaves its 64 bits.
    """
    counts = _StepCounts(cost if looks_outside and isinstance(cost, CalibratedCost) else None)
    lives, arrivals = SimulatedLives(asked), _Arrivals(asked)
    simulator = Simulator(
        scheduler=build_scheduler(setup, build_memory(setup)),
        cost=cost,
        answers=_answers(asked),
        check=check,
        jumps=always if _is_level(cost) and not _keeps(setup) and not _is_said(asked) else never,
    )
    guarded = None if door is None else GuardedInbox(arrivals, door)
    steps = simulator.run_from(arrivals) if guarded is None else guarded.follow(simulator.run_from(guarded))
    for step in steps:
        lives.add(step)
        counts.add(step)
        arrivals.note(step)
    for turned in () if guarded is None else guarded.refused:
        lives.refuse(turned.request)
    return counts.load(lives)


class _Arrivals:
    """An inbox: requests as they are due, those that follow others, and clients that give up."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self._asked = asked
        self._followers: dict[RequestId, list[Asked]] = {}
        self._ended: set[RequestId] = set()
        self._queue: list[tuple[int, int, int]] = []  # when, whose, what
        for each in asked:
            if each.follows is None:
                self._push(int(each.request.arrival_at), _ARRIVAL, each.request.request_id)
            else:
                self._followers.setdefault(each.follows, []).append(each)

    def due(self, now: Time) -> Sequence[Message]:
        """Take what is due: cancels first, then submissions."""
        cancels: list[Message] = []
        arrivals: list[Message] = []
        while self._queue and self._queue[0][0] <= now:
            at, number, kind = heapq.heappop(self._queue)
            request_id = RequestId(number)
            if kind == _ARRIVAL:
                arrivals.append(self._submission(request_id, at))
            elif request_id not in self._ended:
                cancels.append(Cancellation(CancelById(request_id, CancelReason.USER), at))
        return [*cancels, *arrivals]

    def next_at(self) -> Time | None:
        """When the next message is due, or None."""
        while self._queue and self._queue[0][2] == _CANCEL and self._queue[0][1] in self._ended:
            heapq.heappop(self._queue)  # its answer was there before the client lost patience
        return self._queue[0][0] if self._queue else None

    def note(self, step: SimulatedStep) -> None:
        """Ends let others be sent, if they were answers."""
        for event in step.events:
            if isinstance(event, Finished | Rejected):
                request_id = event.request.request_id
                self._ended.add(request_id)
                is_answer = isinstance(event, Finished) and event.cancel_reason is None
                for each in self._followers.pop(request_id, ()) if is_answer else ():
                    self._push(int(event.at) + each.think_us, _ARRIVAL, each.request.request_id)

    def _submission(self, request_id: RequestId, at: int) -> Submission:
        each = self._asked[request_id - 1]
        if each.cancel_after_us is not None:
            self._push(at + each.cancel_after_us, _CANCEL, request_id)
        return Submission(arriving(each, at))

    def _push(self, at: int, kind: int, request_id: RequestId) -> None:
        # ids are in the order of arrival, so those of one moment come in theirs
        heapq.heappush(self._queue, (at, request_id, kind))


class _StepCounts:
    """Sums over the steps of a run."""

    def __init__(self, range_of: CalibratedCost | None) -> None:
        self._range_of = range_of
        self._num_steps = self._busy = self._prefill = self._decode = self._sequences = self._ended_at = 0
        self._outside: Counter[str] = Counter()

    def add(self, step: SimulatedStep) -> None:
        """Count a step, or all of those that were taken in one."""
        self._ended_at = int(step.ended_at)
        times = len(step.ends)
        if not times:
            return
        took, shape = int(step.ended_at - step.began_at), step.plan.shape
        self._num_steps += times
        self._busy += took
        self._prefill += shape.prefill_rows * times
        self._decode += shape.decode_rows * times
        self._sequences += (shape.decode_rows + shape.prefill_chunks) * took
        if self._range_of is not None:
            self._outside.update(dict.fromkeys(map(str, self._range_of.predict(step.plan.rows).outside), times))

    def load(self, lives: SimulatedLives) -> SimulatedLoad:
        """Everything that was counted."""
        return SimulatedLoad(
            lives=lives.lives(self._ended_at),
            num_steps=self._num_steps,
            busy_us=self._busy,
            ended_at_us=self._ended_at,
            prefill_rows=self._prefill,
            decode_rows=self._decode,
            sequence_us=self._sequences,
            num_preemptions=lives.num_preemptions,
            outside=dict(sorted(self._outside.items())),
        )


def _answers(asked: Sequence[Asked]) -> Answers:
    """What requests say matters where a memory keeps it, and where an end token ends it."""
    if not _is_said(asked):
        return NoAnswers()
    return KnownAnswers({each.request.request_id: each.answer for each in asked if each.answer})


def _is_said(asked: Sequence[Asked]) -> bool:
    return any(each.answer or not isinstance(each.request.prompt, BlankTokens) for each in asked)


def _is_level(cost: CostModel) -> bool:
    return isinstance(cost, RoundedMicroseconds) and cost.is_level


def _keeps(setup: Setup) -> bool:
    return isinstance(setup.kv, CellsSetup) and setup.kv.reuse is not None
