"""StepControl: what is known of the step that runs, and how its decode call is made.

    begin    plan → prediction, threads, who could interrupt it; from now on others can see that it runs
    end      what it took, or that it was broken off → the cost model and the thread advisor learn
    due      what the scheduler should hear

Without a cost model, and with interrupts off, it only says when the last step ended.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from arriero.core.events import Event
from arriero.core.ids import Time
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan, Interrupted, Sampled, StepOutcome
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.change import CostChange
from arriero.engine.cost_follower import CostFollower, says_something
from arriero.engine.interrupter import Interrupter, InterruptibleCall, Interruption
from arriero.engine.options import EngineOptions
from arriero.engine.thread_advisor import Advice, ThreadAdvisor, ThreadShift
from arriero.engine.watchdog import Pulse, Work


class StepCall(NamedTuple):
    """How the decode call of a plan is made.

    Attributes:
        threads: that compute; None: as they are.
        interruptible: what may be interrupted; None: nothing.
    """

    threads: Threads | None = None
    interruptible: InterruptibleCall | None = None


AS_IT_IS: Final = StepCall()


class Foreseen(NamedTuple):
    """What was known of a step before it ran.

    Attributes:
        began_at: before its messages were applied.
        predicted: microseconds of the whole step; None without a cost model.
        threads: that compute; None without a cost model.
        advice: where these come from; None where they are settled.
    """

    began_at: Time
    predicted: Time | None = None
    threads: Threads | None = None
    advice: Advice | None = None


class Measured(NamedTuple):
    """What a step with rows came to.

    Attributes:
        plan, outcome: of the step.
        ended_at: after the last event was told.
        decode_us: inside the decode call.
        decode_calls: 1, or more if a call failed and was repeated in parts.
    """

    plan: BatchPlan
    outcome: StepOutcome
    ended_at: Time
    decode_us: Time
    decode_calls: int

    @property
    def is_plain(self) -> bool:
        """Whether its rows were computed once, and all of them."""
        return isinstance(self.outcome, Sampled) and self.decode_calls == 1 and not self.outcome.refused


class StepControl:
    """Owned by the actor; `pulse` and the interrupter may be asked from any thread.

    Attributes:
        interrupter: between those who cancel and the running call.
        pulse: what others may know of the running step.
    """

    def __init__(
        self,
        interrupter: Interrupter,
        *,
        follower: CostFollower | None = None,
        advisor: ThreadAdvisor | None = None,
    ) -> None:
        """An advisor needs a follower, since it goes by predictions."""
        assert advisor is None or follower is not None, "threads are chosen by a cost model"
        self.interrupter = interrupter
        self.pulse = Pulse(0, is_asleep=True)
        self._follower = follower
        self._advisor = advisor
        self._was_interrupted = False
        self._moved_kv = False  # since the last step ended

    @property
    def cost(self) -> CalibratedCost | None:
        """What the scheduler plans with; None without a cost model."""
        return None if self._follower is None else self._follower.cost

    # ── the pulse ───────────────────────────────────────────────────────────────────────────────────────────────────

    def sleep(self) -> None:
        """Nothing is to be done until a message comes, or a time."""
        self.pulse = self.pulse._replace(is_asleep=True)

    def wake(self, now: Time) -> None:
        """A pass of the loop begins."""
        if self.pulse.is_asleep:
            self.pulse = Pulse(now)

    def idle(self, now: Time) -> None:
        """A pass without rows has ended."""
        self.pulse = Pulse(now)
        self._moved_kv = False

    # ── a step with rows ────────────────────────────────────────────────────────────────────────────────────────────

    def see(self, events: Sequence[Event]) -> None:
        """What this pass tells the backend, before and after its rows."""
        if self._follower is not None and not self._moved_kv:
            self._moved_kv = not says_something(events)

    def begin(self, plan: BatchPlan, began_at: Time, now: Time) -> tuple[StepCall, Foreseen]:
        """The rows of a plan are about to be computed; its step began earlier, with messages and what they told."""
        foreseen = self._foresee(plan, began_at)
        shape = plan.shape
        self.pulse = Pulse(
            self.pulse.at, work=Work(plan.step, shape.decode_rows, shape.prefill_rows, foreseen.predicted)
        )
        return StepCall(foreseen.threads, self._interruptible(plan, foreseen, now)), foreseen

    def end(self, foreseen: Foreseen, measured: Measured) -> ThreadShift | None:
        """They were; what changes about the threads from now on."""
        self.pulse = Pulse(measured.ended_at)
        self._was_interrupted = isinstance(measured.outcome, Interrupted)
        if self._was_interrupted and self.interrupter.last is Interruption.OVERDUE:
            return self._broke_off(foreseen, measured)
        moved_kv, self._moved_kv = self._moved_kv, False
        if self._follower is None or foreseen.threads is None or moved_kv or not measured.is_plain:
            return None
        plan, took = measured.plan, measured.ended_at - foreseen.began_at
        self._follower.observe(plan.rows, took, foreseen.threads, pool=plan.pool_cells)
        advice = foreseen.advice
        if self._advisor is None or advice is None or advice.time <= 0 or measured.decode_us <= 0:
            return None
        return self._advisor.observe(advice, measured.decode_us, measured.ended_at)

    # ── what the scheduler hears ────────────────────────────────────────────────────────────────────────────────────

    def due(self, now: Time) -> CostChange | None:
        """What the scheduler should be told now; it counts as told."""
        if self._follower is None:
            return None
        threads = self._follower.cost.threads if self._advisor is None else self._advisor.threads
        return self._follower.due(threads, now)

    def apply(self, change: CostChange) -> None:
        """The scheduler was told."""
        if self._follower is not None:
            self._follower.apply(change)

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _foresee(self, plan: BatchPlan, now: Time) -> Foreseen:
        if self._follower is None:
            return Foreseen(now)
        cost = self._follower.cost
        if self._advisor is None:
            return Foreseen(now, cost.plan_time(plan), cost.threads)
        advice = self._advisor.choose(cost, plan.rows, now, pool=plan.pool_cells)
        return Foreseen(now, round(advice.host + advice.time), advice.threads, advice)

    def _interruptible(self, plan: BatchPlan, foreseen: Foreseen, now: Time) -> InterruptibleCall | None:
        patience = self._patience(foreseen)
        if patience is None and not self.interrupter.is_on:
            return None
        return InterruptibleCall(
            {row.request.request_id: row.request.epoch for row in plan.rows},
            ends_at=foreseen.began_at + (foreseen.predicted or 0),
            for_one=not self._was_interrupted,
            overdue_at=None if patience is None else now + patience,
        )

    def _patience(self, foreseen: Foreseen) -> Time | None:
        """Of two calls in a row one is made to its end, whatever it takes."""
        if self._advisor is None or foreseen.advice is None or self._was_interrupted:
            return None
        return self._advisor.patience(foreseen.advice, foreseen.began_at, moves_kv=self._moved_kv)

    def _broke_off(self, foreseen: Foreseen, measured: Measured) -> ThreadShift | None:
        self._moved_kv = False
        assert self._advisor is not None, "who is not advised has patience"
        assert foreseen.advice is not None, "who is not advised has patience"
        return self._advisor.broke_off(foreseen.advice, measured.decode_us, measured.ended_at)


def build_control(options: EngineOptions, interrupter: Interrupter) -> StepControl:
    """As the options of an engine say."""
    cost = options.cost
    if cost is None:
        return StepControl(interrupter)
    advisor = ThreadAdvisor(cost.threads, tuple(cost.passes)) if options.adapts_threads else None
    return StepControl(interrupter, follower=CostFollower(cost), advisor=advisor)


def build_interrupter(interrupt: Callable[[], None], options: EngineOptions) -> Interrupter:
    """As the options of an engine say; `interrupt` is its backend's."""
    after_ms = options.interrupt_after_ms
    return Interrupter(interrupt, None if after_ms is None else round(after_ms * 1000))
