"""The same clients with one engine in place of the pool: one context, as many slots as the pool has contexts."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from types import MappingProxyType
from typing import Final, TypeAlias

from arriero.backend.protocol import Backend
from arriero.bench.fifo_pool_plan import PoolPlan
from arriero.bench.fifo_pool_request import PoolLife, PoolOutcome
from arriero.bench.fifo_pool_runners import PoolRun
from arriero.core.errors import ConfigError, EngineFault
from arriero.core.request import FinishReason
from arriero.engine.engine import Engine
from arriero.engine.handle import RequestHandle, Result
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated

_NS_PER_US: Final = 1000
_OUTCOMES: Final = MappingProxyType({
    FinishReason.LENGTH: PoolOutcome.OK,
    FinishReason.STOP: PoolOutcome.OK,
    FinishReason.CANCELLED: PoolOutcome.CANCELLED,
    FinishReason.FAILED: PoolOutcome.ERROR,
    FinishReason.ABORTED: PoolOutcome.ERROR,
})


def run_engine(plan: PoolPlan, make_backend: Callable[[], Backend], options: EngineOptions | None = None) -> PoolRun:
    """Make the backend, serve every request of the plan by an engine on its own thread, close the backend.

    Args:
        plan: what the clients ask; it must cancel nobody.
        make_backend: a fresh backend with as many sequences as the plan has contexts.
        options: of the engine.

    Raises:
        ConfigError: the plan cancels somebody, or the backend does not fit.
        EngineDied: the engine crashed.
    """
    if plan.cancels:
        raise ConfigError("a cancel plan is for the pool only; leave it out beside an engine")
    backend = make_backend()
    try:
        engine = Engine(backend, options)
        engine.start(Dedicated())
        try:
            clients = _Clients(plan, engine)
            lives, began_at, ended_at = clients.run()
        finally:
            engine.shutdown()
            summary = engine.join()
        return PoolRun(
            plan=plan,
            lives=lives,
            counts=None,
            decode_calls=summary.snapshot.totals.decode_calls,
            kv_cells=backend.limits.num_cells,
            began_at=began_at,
            ended_at=ended_at,
        )
    finally:
        backend.close()


_Asked: TypeAlias = tuple[int, RequestHandle | None]


class _Clients:
    """Threads that each ask for the next request when their last one has ended."""

    def __init__(self, plan: PoolPlan, engine: Engine) -> None:
        self._plan = plan
        self._engine = engine
        self._numbers = iter(range(plan.requests))
        self._order = threading.Lock()
        self._lives: list[PoolLife] = []

    def run(self) -> tuple[tuple[PoolLife, ...], int, int]:
        """The lives by number, and when the run began and ended."""
        began_at = time.monotonic_ns()
        with ThreadPoolExecutor(self._plan.concurrent, thread_name_prefix="engine-client") as threads:
            try:
                firsts = [self._ask() for _ in range(self._plan.concurrent)]  # here: starting a thread takes a while
                futures = [threads.submit(self._client, asked) for asked in firsts]
                wait(futures)
            except BaseException:  # Ctrl-C: nobody asks again, and nobody waits for what is under way
                with self._order:
                    self._numbers = iter(range(0))
                self._engine.cancel_all()
                raise
        for future in futures:
            future.result()
        ended_at = time.monotonic_ns()
        return tuple(sorted(self._lives, key=lambda life: life.number)), began_at, ended_at

    def _client(self, asked: _Asked | None) -> None:
        while asked is not None:
            number, handle = asked
            budget = self._plan.budget_of(number)
            self._lives.append(_bypassed(number) if handle is None else _life(number, budget, handle.wait()))
            asked = self._ask()

    def _ask(self) -> _Asked | None:
        """The number and handle of the next request, in the order of numbers; no handle for a budget of 0."""
        plan = self._plan
        with self._order:
            number = next(self._numbers, None)
            if number is None:
                return None
            budget = plan.budget_of(number)
            if budget == 0:
                return number, None
            handle = self._engine.submit(
                plan.prompt,
                budget,
                sampling=plan.sampling_of(number),
                end_tokens=None if plan.heeds_end else frozenset(),
                request_id=number,
            )
            return number, handle


def _bypassed(number: int) -> PoolLife:
    now = time.monotonic_ns()
    return PoolLife(
        number=number,
        budget=0,
        outcome=PoolOutcome.OK,
        error=None,
        tokens=(),
        asked_at=now,
        started_at=None,
        first_at=None,
        ended_at=now,
        context=None,
        decode_calls=0,
    )


def _life(number: int, budget: int, result: Result) -> PoolLife:
    outcome = _OUTCOMES[result.reason]
    return PoolLife(
        number=number,
        budget=budget,
        outcome=outcome,
        error=_code(result.error) if outcome is PoolOutcome.ERROR else None,
        tokens=result.tokens,
        asked_at=int(result.arrival_at) * _NS_PER_US,
        started_at=_ns(result.admitted_at),
        first_at=_ns(result.first_token_at),
        ended_at=int(result.finished_at) * _NS_PER_US,
        context=result.sequence_id,
        decode_calls=None,
    )


def _ns(moment_us: float | None) -> int | None:
    return None if moment_us is None else int(moment_us) * _NS_PER_US


def _code(error: EngineFault | None) -> str:
    return "unknown" if error is None else error.code
