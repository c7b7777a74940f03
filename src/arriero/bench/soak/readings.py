"""Readings: what a server that should be idle still holds, asked from it and from its system.

What is asked costs the server a connection, its task and its file; so it does in every reading, and readings are only
compared with one another.
"""

import asyncio
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from arriero.bench.experiments.calls import CallFailed, call
from arriero.bench.metrics_page import sum_of
from arriero.bench.servers import Server
from arriero.bench.soak.records import Reading

PROC: Final = Path("/proc")
_LOOK_AGAIN_S: Final = 0.05


class _Kv(msgspec.Struct):
    active_cells: int
    retained_cells: int
    sequences_held: int
    sequences_free: int
    sequences_quarantined: int
    sequences_retained: int
    swapped_requests: int = 0


class _Scheduler(msgspec.Struct):
    num_running: int
    num_waiting: int
    kv: _Kv


class _Engine(msgspec.Struct):
    scheduler: _Scheduler


class _Door(msgspec.Struct):
    in_flight: int


class _State(msgspec.Struct):
    """The parts of `/debug/state` that are read."""

    engine: _Engine
    door: _Door
    answering: int
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What an idle server may have at most; more than that is waited for.

    Attributes:
        files, tasks: None where nobody knows.
    """

    files: int | None = None
    tasks: int | None = None

    def holds(self, reading: Reading) -> bool:
        """Whether nothing is left, and nothing more is there than expected."""
        return reading.is_idle and not _is_above(reading.files, self.files) and not _is_above(reading.tasks, self.tasks)


async def read_when_idle(server: Server, expected: Expected, *, within_s: float) -> Reading:
    """Read until the server holds no more than expected, or the time is over; the last reading.

    Raises:
        CallFailed: it does not answer, or not as this project's server does.
    """
    end = time.monotonic() + within_s
    while True:
        reading = await read_server(server)
        if expected.holds(reading) or time.monotonic() >= end:
            return reading
        await asyncio.sleep(_LOOK_AGAIN_S)


async def read_server(server: Server) -> Reading:
    """One reading.

    Raises:
        CallFailed: it does not answer, or not as this project's server does.
    """
    page = (await call(server.url, "GET", "/metrics")).body
    reply = await call(server.url, "GET", "/debug/state")
    requests = sum_of(page, "arriero_requests_total")
    try:
        state = msgspec.convert(reply.body, _State)
    except msgspec.ValidationError as error:
        raise CallFailed(f"{server.url}/debug/state: {reply.status}, and not what is needed ({error})") from None
    health = await call(server.url, "GET", "/health")
    usage = server.usage()
    scheduler, kv = state.engine.scheduler, state.engine.scheduler.kv
    return Reading(
        is_well=health.status == HTTPStatus.OK,
        resident_bytes=None if usage is None else usage.resident_bytes,
        files=num_entries(server.pid, "fd"),
        threads=num_entries(server.pid, "task"),
        tasks=state.tasks,
        in_flight=state.door.in_flight,
        answering=state.answering,
        running=scheduler.num_running,
        waiting=scheduler.num_waiting,
        active_cells=kv.active_cells,
        retained_cells=kv.retained_cells,
        swapped=kv.swapped_requests,
        sequences_held=kv.sequences_held,
        sequences_quarantined=kv.sequences_quarantined,
        sequence_ids=kv.sequences_held + kv.sequences_free + kv.sequences_quarantined + kv.sequences_retained,
        requests=round(requests or 0),
        threads_used=sum_of(page, "arriero_threads"),
    )


def num_entries(pid: int, name: str, proc: Path = PROC) -> int | None:
    """Open files (`fd`) or threads (`task`) of a process; None where the system does not say."""
    try:
        return sum(1 for _ in (proc / str(pid) / name).iterdir())
    except OSError:
        return None


def _is_above(value: int | None, most: int | None) -> bool:
    return value is not None and most is not None and value > most
