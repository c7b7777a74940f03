"""Runs with published counts, on the scripted backend: a cancel posted after step 15 is observed in step 16."""

from collections.abc import Callable, Mapping, Sequence

from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticOptions
from arriero.core.events import TokenEmitted
from arriero.core.ids import Time, TokenId
from arriero.core.request import CancelReason
from arriero.engine.actor import Answer, Wait
from arriero.engine.engine import Engine
from arriero.engine.handle import Result
from arriero.engine.observer import EngineSummary, Observer, StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, _perform, _resume
from arriero.testing.fakes import ScriptedBackend

PROMPT = (1, 2, 3, 4, 5, 6)
BUDGETS = (8, 64, 256)
CANCEL_AFTER_16 = {1: 16, 4: 16, 7: 16, 2: 16, 5: 16, 8: 16}
NO_CANCELS: Mapping[int, int] = {}
ENDLESS = frozenset[TokenId]()
ENDS_BY_ITSELF = EngineOptions(keep_alive=False, check=True, published_pools=False)
JOIN_WITHIN_S = 60.0


class TickingClock:
    """Ten microseconds later at every look; counts the looks."""

    def __init__(self) -> None:
        self.num_reads = 0

    def __call__(self) -> Time:
        self.num_reads += 1
        return self.num_reads * 10


class Steering:
    """An observer that posts a cancel once a request has emitted so many tokens, and keeps the results."""

    def __init__(self, plan: Mapping[int, int], *, by_token: CancelReason | None = None) -> None:
        self.engine: Engine | None = None
        self._by_token = by_token
        self.results: list[Result] = []
        self._left = dict(plan)

    def on_start(self, at: Time) -> None: ...

    def on_step(self, record: StepRecord) -> None:
        for event in record.events:
            if isinstance(event, TokenEmitted) and event.request_id in self._left:
                self._left[event.request_id] -= 1
                if self._left[event.request_id] == 0:
                    self._cancel(event.request_id)

    def on_end(self, result: Result) -> None:
        self.results.append(result)

    def on_close(self, summary: EngineSummary) -> None: ...

    def _cancel(self, request_id: int) -> None:
        assert self.engine is not None, "nobody to steer"
        if self._by_token is None:
            self.engine.cancel(request_id)
        else:
            self.engine.cancel_submission(request_id, 1, self._by_token)


def backend(num_sequences: int, num_rows: int = 1024) -> ScriptedBackend:
    cells = num_sequences * 320
    return ScriptedBackend(options=SyntheticOptions(num_sequences=num_sequences, num_rows=num_rows, num_cells=cells))


def published_budgets(num_active: int, num_waiting: int = 0) -> list[int]:
    return [BUDGETS[number % len(BUDGETS)] for number in range(num_active)] + [64] * num_waiting


def run_preloaded(
    observers: Sequence[Observer],
    budgets: Sequence[int],
    *,
    num_active: int,
    cancels: Mapping[int, int] = NO_CANCELS,
    stream: bool = False,
) -> tuple[EngineSummary, list[Result]]:
    """Preload requests 0, 1 ... with these budgets on so many slots, and run until nothing is left."""
    steering = Steering(cancels)
    everybody = (*observers, steering)
    engine = Engine(backend(num_active), ENDS_BY_ITSELF, observers=everybody, clock=TickingClock())
    steering.engine = engine
    for number, budget in enumerate(budgets):
        engine.submit(PROMPT, budget, request_id=number, preloaded=True, want_stream=stream, end_tokens=ENDLESS)
    engine.start(Dedicated())
    summary = engine.join(JOIN_WITHIN_S)
    assert summary.crashed is None
    return summary, steering.results


def step_by_hand(
    served: Backend,
    observers: Sequence[Observer],
    acts: Sequence[Callable[[Engine], object]],
    options: EngineOptions | None = None,
) -> EngineSummary:
    """Drive an engine's loop without a thread: whenever it falls asleep, the next act is done; the last one ends it."""
    engine = Engine(served, options, observers=observers, clock=(clock := TickingClock()))
    actor = engine._build(0)
    started_at = clock()
    steps = actor.loop()
    answer: Answer | None = None
    acts_left = list(acts)
    while (need := _resume(steps, answer)) is not None:
        if not isinstance(need, Wait):
            answer = _perform(actor, need)
            continue
        if need.until is None:
            acts_left.pop(0)(engine)
        answer = actor.inbox.take()
    return actor.close(started_at, actor.executor.close(), None)
