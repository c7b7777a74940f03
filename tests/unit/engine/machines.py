"""Costs at several numbers of threads, and an engine in virtual time on a machine that has them."""

from collections.abc import Callable, Sequence

from arriero.backend.protocol import DecodeInterrupted
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.core.ids import Time
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, ValidRange
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import PassCosts
from arriero.engine.actor import Answer, Run, Wait
from arriero.engine.engine import Engine
from arriero.engine.inbox import AT_ONCE
from arriero.engine.interrupter import Interrupter
from arriero.engine.observer import Observer, StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import _perform, _resume
from arriero.testing.clock import ManualClock
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import Fault
from arriero.testing.machine import Machine
from tests.unit.engine.driving import StepLog

MEMORY = SyntheticOptions(num_sequences=4, num_rows=256, micro_batch=256, num_cells=4 * 1024)


def scaling_cost(*numbers: int, most: Threads | None = None) -> CalibratedCost:
    """A pass has a part that no thread helps, and one that is shared; a row alone gains nothing beyond one thread."""
    passes = {
        number: PassCosts.of({
            "pass": 2000 + 400 * number, "rows_0": 1600 / number, "rows_16": 1600 / number, "rows_64": 1600 / number,
        })
        for number in numbers
    }  # fmt: skip
    return CalibratedCost(
        rules=PassRules(micro_batch=256, unified=False, stream_cells=1024),
        passes=passes,
        threads=most or Threads(max(numbers), max(numbers)),
        host=HostCosts(step=100, entry=10, token=20),
        valid=ValidRange(rows=256, sequences=4, context=1024, pool=4096),
    )


class SetThreads(Fault):
    """Keeps what the backend was told.

    Attributes:
        told: every call, in order.
    """

    def __init__(self) -> None:
        self.told: list[Threads] = []

    def set_threads(self, threads: Threads) -> None:
        self.told.append(threads)


class OverdueCalls(Fault):
    """Ends calls as the interrupter of an engine would, if they take too long.

    Attributes:
        took: what the next call will take; set before it.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.took: Time = 0
        self.interrupter: Interrupter | None = None
        self._clock = clock

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        del call, rows
        assert self.interrupter is not None
        overdue_at = self.interrupter.overdue_at
        if overdue_at is None or self._clock() + self.took < overdue_at:
            self._clock.advance(self.took)
            return
        self.took = overdue_at - self._clock()
        self._clock.advance(self.took)
        assert self.interrupter.end_overdue(self._clock())
        message = "the decode call was interrupted"
        raise DecodeInterrupted(message, code="interrupted")


class TimedEngine:
    """An engine whose loop is driven by hand, and whose clock moves by what its steps take on a machine.

    Attributes:
        engine, actor: not started; `run` drives the actor.
        log: what an observer sees.
        threads: what the backend was told.
    """

    def __init__(
        self,
        machine: Machine,
        options: EngineOptions,
        *,
        before: Callable[[StepRecord], None] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """`before` is called with each record, and may change the machine or ask for more."""
        self.log = StepLog()
        self.threads = SetThreads()
        self.clock = ManualClock()
        self._calls = OverdueCalls(self.clock)
        backend = FaultyBackend(SyntheticBackend(MEMORY), self.threads, self._calls)
        self.engine = Engine(backend, options, observers=[self.log, *observers], clock=self.clock)
        self._calls.interrupter = self.engine._interrupter
        self._machine = machine
        self._before = before
        self.actor = self.engine._build(0)
        self._computing = options.cost.threads if options.cost is not None else Threads(1, 1)
        self._host = HostCosts(step=100) if options.cost is None else options.cost.host

    def run(self, num_steps: int) -> list[StepRecord]:
        """So many steps with rows, or until nothing is left; then everything is cancelled."""
        actor = self.actor
        steps = actor.loop()
        answer: Answer | None = None
        num_seen, is_over = 0, False
        while (need := _resume(steps, answer)) is not None:
            while num_seen < len(self.log.records):
                if self._before is not None:
                    self._before(self.log.records[num_seen])
                num_seen += 1
            match need:
                case Wait(until):
                    computed = sum(record.outcome is not None for record in self.log.records)
                    if not is_over and (until is not AT_ONCE or computed >= num_steps):
                        is_over = True
                        self.engine.cancel_all()
                        self.engine.shutdown()
                    answer = actor.inbox.take()
                case Run(plan, call):
                    self._computing = call.threads or self._computing
                    self._calls.took = self._machine.decode_time(plan.rows, self._computing, pool=plan.pool_cells)
                    answer = _perform(actor, need)
                    num_tokens = sum(row.wants_logits for row in plan.rows)
                    self.clock.advance(round(self._host.time(len(plan.rows), num_tokens)))
                    actor.executor.counts.decode_ns = round(self._calls.took * 1000)
                case _:
                    answer = _perform(actor, need)
        actor.close(0, actor.executor.close(), None)
        return [record for record in self.log.records if record.outcome is not None]
