"""The two runners of a context pool, and the run that comes out.

threads   one thread for each client; it computes on the context that it holds
asyncio   one task for each client; every context has a worker thread, and every decode call gives the loop a turn
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never

from arriero.backend.protocol import Backend
from arriero.bench.fifo_pool import FifoPool, PoolCounts
from arriero.bench.fifo_pool_plan import PoolPlan
from arriero.bench.fifo_pool_request import PooledRequest, PoolLife
from arriero.bench.fifo_pool_service import Compute, Service, Wait, serve
from arriero.core.ids import RequestId
from arriero.core.request import Request


class Runner(StrEnum):
    """Who drives the clients."""

    THREADS = "threads"
    ASYNCIO = "asyncio"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRun:
    """A run that has ended.

    Attributes:
        plan: what was asked.
        lives: by request number.
        counts: how the pool was used; None for a run without a pool.
        decode_calls: in all.
        kv_cells: cells of all contexts.
        began_at, ended_at: first ask, and when the last client had its answer; ns.
    """

    plan: PoolPlan
    lives: tuple[PoolLife, ...]
    counts: PoolCounts | None
    decode_calls: int
    kv_cells: int
    began_at: int
    ended_at: int


Asked: TypeAlias = tuple[Service, Wait | Compute | PoolLife]
"""A request under way, and the first thing that it needs."""


class Clients:
    """What all clients of a run share: the next number, and the requests made from it."""

    def __init__(self, plan: PoolPlan, contexts: Sequence[Backend], clock: Callable[[], int]) -> None:
        """Nothing is asked yet; `contexts` are as many as the plan says."""
        self.plan = plan
        self.pool = FifoPool(len(contexts))
        self.contexts = contexts
        self.clock = clock
        self.lives: list[PoolLife] = []
        self._end_tokens = contexts[0].end_tokens if plan.heeds_end else frozenset[int]()
        self._numbers = iter(range(plan.requests))
        self._order = threading.Lock()

    def ask(self, wake: Callable[[], None]) -> Asked | None:
        """Ask for the next request, up to the first thing that it needs; None if all were asked.

        Numbers are dealt and asked under one lock, so that requests queue up in the order of their numbers.
        """
        with self._order:
            number = next(self._numbers, None)
            if number is None:
                return None
            plan = self.plan
            budget = plan.budget_of(number)
            request = Request(
                request_id=RequestId(number),
                prompt=plan.prompt,
                max_tokens=max(1, budget),
                arrival_at=0,
                sampling=plan.sampling_of(number),
                end_tokens=self._end_tokens,
            )
            asked = PooledRequest(request, budget, self.clock, wake)
            service = serve(asked, self.pool, self.contexts, plan.cancels_at(number))
            return service, resumed(service, None)

    def stop(self) -> None:
        """Let nobody ask again."""
        with self._order:
            self._numbers = iter(range(0))

    def run(self, began_at: int) -> PoolRun:
        """The run, once every client has its last answer."""
        lives = tuple(sorted(self.lives, key=lambda life: life.number))
        return PoolRun(
            plan=self.plan,
            lives=lives,
            counts=self.pool.counts,
            decode_calls=sum(life.decode_calls or 0 for life in lives),
            kv_cells=sum(context.limits.num_cells for context in self.contexts),
            began_at=began_at,
            ended_at=self.clock(),
        )


def run_pool(
    runner: Runner,
    plan: PoolPlan,
    make_context: Callable[[], Backend],
    *,
    clock: Callable[[], int] = time.monotonic_ns,
) -> PoolRun:
    """Make the contexts, serve every request, close the contexts.

    Args:
        runner: who drives the clients.
        plan: what they ask.
        make_context: a fresh context with one sequence; it is called once for each of the plan's contexts.
        clock: whole nanoseconds.
    """
    with ExitStack() as stack:
        contexts: list[Backend] = []
        for _ in range(plan.contexts):
            contexts.append(make_context())
            stack.callback(contexts[-1].close)
        clients = Clients(plan, contexts, clock)
        match runner:
            case Runner.THREADS:
                return run_threads(clients)
            case Runner.ASYNCIO:
                return asyncio.run(run_tasks(clients))
            case _:
                assert_never(runner)


def resumed(service: Service, answer: bool | None) -> Wait | Compute | PoolLife:  # noqa: FBT001 - what a call gave
    """Resume a service, or start it with None; its next need, or its end."""
    try:
        return next(service) if answer is None else service.send(answer)
    except StopIteration as stop:
        life: PoolLife = stop.value
        return life


# ── threads ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_threads(clients: Clients) -> PoolRun:
    """One thread for each client.

    Raises:
        Exception: what a client raised, if it is a fault of ours; every thread has ended then.
    """
    began_at = clients.clock()
    wakes = [threading.Event() for _ in range(clients.plan.concurrent)]
    with ThreadPoolExecutor(clients.plan.concurrent, thread_name_prefix="pool-client") as threads:
        try:
            firsts = [clients.ask(woken.set) for woken in wakes]  # here, since starting a thread takes a while
            futures = [threads.submit(_client, clients, *each) for each in zip(wakes, firsts, strict=True)]
            wait(futures)
        except BaseException:  # Ctrl-C: what is under way ends before its context is closed
            clients.stop()
            raise
    for future in futures:
        future.result()
    return clients.run(began_at)


def _client(clients: Clients, woken: threading.Event, asked: Asked | None) -> None:
    while asked is not None:
        service, need = asked
        while not isinstance(need, PoolLife):
            if isinstance(need, Wait):
                woken.wait()
                woken.clear()
                need = resumed(service, answer=True)
            else:
                need = resumed(service, need.call())
        clients.lives.append(need)
        asked = clients.ask(woken.set)


# ── asyncio ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def run_tasks(clients: Clients) -> PoolRun:
    """One task for each client, one worker thread for each context."""
    began_at = clients.clock()
    with ExitStack() as stack:
        workers = [
            stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix=f"pool-context-{number}"))
            for number in range(clients.plan.contexts)
        ]
        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients.plan.concurrent):
                tasks.create_task(_task(clients, workers))
    return clients.run(began_at)


async def _task(clients: Clients, workers: Sequence[ThreadPoolExecutor]) -> None:
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        loop.call_soon_threadsafe(woken.set)

    while (asked := clients.ask(wake)) is not None:
        service, need = asked
        while not isinstance(need, PoolLife):
            if isinstance(need, Wait):
                await woken.wait()
                woken.clear()
                need = resumed(service, answer=True)
            else:
                need = resumed(service, await loop.run_in_executor(workers[need.context], need.call))
        clients.lives.append(need)
