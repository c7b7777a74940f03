"""Placement: which thread the actor and its backend run on.

    Dedicated   the actor on a thread of its own, the backend on the same thread
    Shared      the actor as a task of the running event loop, the backend on one worker thread

It changes no decision. One that cannot be had is an error, never another one in silence.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.ids import SequenceId
from arriero.engine.actor import Actor, Answer, Clock, Need, Run, Settle, Steps, Wait
from arriero.engine.inbox import AT_ONCE, Until
from arriero.engine.observer import EngineSummary


@dataclass(frozen=True, slots=True)
class Dedicated:
    """A thread of the engine's own.

    Attributes:
        cpus: CPUs that it is pinned to, with the compute threads that the first decode call starts; empty: all.
    """

    cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """The running event loop, and one worker thread for the backend."""


Placement: TypeAlias = Dedicated | Shared

OnClosed: TypeAlias = Callable[[EngineSummary], None]


def run_dedicated(actor: Actor, clock: Clock, cpus: tuple[int, ...], name: str, on_closed: OnClosed) -> None:
    """Start the thread; returns once it is pinned.

    Raises:
        ConfigError: the CPUs cannot be had; nothing runs then.
    """
    pinned: Future[None] = Future()

    def main() -> None:
        try:
            _pin(cpus)
        except ConfigError as error:
            pinned.set_exception(error)
            return
        pinned.set_result(None)
        on_closed(_drive_blocking(actor, clock))

    threading.Thread(target=main, name=name, daemon=True).start()
    pinned.result()


def run_shared(actor: Actor, clock: Clock, name: str, on_closed: OnClosed) -> "asyncio.Task[None]":
    """Start the task on the running loop; the caller keeps a reference to it."""

    async def main() -> None:
        on_closed(await _drive_on_loop(actor, clock, name))

    return asyncio.get_running_loop().create_task(main(), name=name)


def _drive_blocking(actor: Actor, clock: Clock) -> EngineSummary:
    """The blocking driver: everything on this thread."""
    started_at = clock()
    residual: tuple[SequenceId, ...] = ()
    error: Exception | None = None
    try:
        residual = _run_blocking(actor, clock)
    except Exception as raised:  # noqa: BLE001 - whatever it was, every open handle must hear of it
        error = raised
    return actor.close(started_at, residual, error)


def _run_blocking(actor: Actor, clock: Clock) -> tuple[SequenceId, ...]:
    steps = actor.loop()
    answer: Answer | None = None
    while (need := _resume(steps, answer)) is not None:
        if isinstance(need, Wait):
            if need.until is not AT_ONCE:
                actor.inbox.wait(_seconds_until(need.until, clock))
            answer = actor.inbox.take()
        else:
            answer = _perform(actor, need)
    return actor.executor.close()


async def _drive_on_loop(actor: Actor, clock: Clock, name: str) -> EngineSummary:
    """The awaiting driver: decisions on the loop, the backend on one worker."""
    started_at = clock()
    residual: tuple[SequenceId, ...] = ()
    error: Exception | None = None
    try:
        residual = await _run_on_loop(actor, clock, name)
    except Exception as raised:  # noqa: BLE001 - whatever it was, every open handle must hear of it
        error = raised
    return actor.close(started_at, residual, error)


async def _run_on_loop(actor: Actor, clock: Clock, name: str) -> tuple[SequenceId, ...]:
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    actor.inbox.on_post(lambda: loop.call_soon_threadsafe(arrived.set))
    steps = actor.loop()
    answer: Answer | None = None
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix=name) as worker:
        while (need := _resume(steps, answer)) is not None:
            if isinstance(need, Wait):
                await _wait(arrived, need.until, clock)
                arrived.clear()
                answer = actor.inbox.take()
            else:
                answer = await loop.run_in_executor(worker, _perform, actor, need)
        actor.inbox.on_post(None)
        return await loop.run_in_executor(worker, actor.executor.close)


def _resume(steps: Steps, answer: Answer | None) -> Need | None:
    """Answer the loop's last need; returns its next one, or None at its end."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


def _perform(actor: Actor, need: Need) -> Answer:
    match need:
        case Settle(events):
            return actor.executor.settle(events)
        case Run(plan, call):
            return actor.executor.run(plan, call)
        case Wait():
            message = "a wait is the driver's own business"
            raise InvariantViolation(message)


async def _wait(arrived: asyncio.Event, until: Until, clock: Clock) -> None:
    """Wait for a message or a time; even AT_ONCE gives the loop's other tasks their turn."""
    if until is AT_ONCE:
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(_seconds_until(until, clock)):
            await arrived.wait()
    except TimeoutError:
        pass


def _seconds_until(until: Until, clock: Clock) -> float | None:
    """Seconds from now, or None for as long as it takes."""
    assert until is not AT_ONCE, "nothing to wait for"
    return None if until is None else max(0.0, (until - clock()) / 1e6)


def _usable_cpus() -> str:
    affinity = getattr(os, "sched_getaffinity", None)
    return "whatever the system gives it" if affinity is None else ",".join(map(str, sorted(affinity(0))))


def _pin(cpus: tuple[int, ...]) -> None:
    """Pin the calling thread, and verify it.

    Raises:
        ConfigError: the system has no affinity, or not these CPUs.
    """
    if not cpus:
        return
    wanted = set(cpus)
    try:
        os.sched_setaffinity(0, wanted)
        got = os.sched_getaffinity(0)
    except (AttributeError, OSError, ValueError) as error:
        message = (
            f"--engine-cpus {','.join(map(str, cpus))}: the engine's thread cannot be pinned there ({error}); "
            f"this process may use {_usable_cpus()}"
        )
        raise ConfigError(message) from error
    if got != wanted:
        message = f"--engine-cpus {','.join(map(str, cpus))}: the system gave {sorted(got)} instead"
        raise ConfigError(message)
