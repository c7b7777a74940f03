"""Runs a soak from wherever it stands: a server of its own, leg after leg, everything on disk after each of them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from msgspec.structs import replace

from arriero.bench.ask import Ask
from arriero.bench.client import HttpTarget
from arriero.bench.client_options import HttpOptions, TimeLimits
from arriero.bench.cost_profiles import CalibrationPlan, calibrated
from arriero.bench.experiments.calls import CallFailed
from arriero.bench.loop_watch import LoopWatch, quiet_collector
from arriero.bench.loops_pace import REAL_PACE
from arriero.bench.neighbour import BusyNeighbour
from arriero.bench.peers import arriero
from arriero.bench.servers import Server, ServerFailed, started
from arriero.bench.servers_commands import ServerValues, with_flags
from arriero.bench.soak.load import Hands, run_leg
from arriero.bench.soak.plan import GREEDY, leg_of
from arriero.bench.soak.readings import Expected, read_when_idle
from arriero.bench.soak.records import LegRecord, Reading, ServerRecord
from arriero.bench.soak.settings import SoakSettings
from arriero.bench.soak.slow_reader import SlowReader
from arriero.bench.soak.state import SoakState, StateFile
from arriero.bench.soak.tally import record_of
from arriero.record.machine import usable_cpus
from arriero.record.provenance import portable_command

PROFILE: Final = "cost-profile.json"
GRACE_S: Final = 40.0
"""Between SIGTERM and SIGKILL; longer than the server takes to cancel what it still runs."""

SETTLE_S: Final = 10.0
"""How long a drained server may take until nothing more is left than before."""

QUIET_S: Final = 0.2

_BATCH_ROWS: Final = 512
_MICRO_BATCH: Final = 512
_WARM_UP_TOKENS: Final = 8

Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """A server that was started, and what it was like before anything happened to it."""

    server: Server
    number: int
    before: Reading


async def run_soak(file: StateFile, folder: Path, tell: Tell) -> None:
    """Go on until every leg was run, or the server fails; the state says which.

    A cancelled task leaves the state as it was after the last leg.

    Raises:
        ConfigError: the server or a cost profile for it cannot be had, or the state cannot be written.
    """
    if file.state.is_over:
        return
    settings = file.state.settings
    command = with_flags(arriero(), (*_words(settings), *await _steering(settings, folder, tell)))
    number = len(file.state.servers) + 1
    running: Server | None = None
    try:
        async with started(command, _values(settings), log=folder / f"server-{number}.log", grace_s=GRACE_S) as running:
            await _legs(file, running, number, tell)
    except (ServerFailed, CallFailed) as error:
        file.put(replace(file.state, failures=(*file.state.failures, _portable(str(error)))))
    if running is not None:
        _note_end(file, running, number)


async def _legs(file: StateFile, server: Server, number: int, tell: Tell) -> None:
    """Every leg that is left, on one server.

    Raises:
        ServerFailed, CallFailed: the server is gone or does not say what it holds.
    """
    settings = file.state.settings
    await _warm_up(settings, server)
    await asyncio.sleep(QUIET_S)  # connections that were just closed are no part of an idle server
    before = await read_when_idle(server, Expected(), within_s=SETTLE_S)
    file.put(replace(file.state, servers=(*file.state.servers, ServerRecord(number=number, before=before))))
    watched = _Watched(server=server, number=number, before=before)
    earlier = before
    while not file.state.is_over:
        record = await _leg(settings, watched, len(file.state.legs), earlier)
        earlier = record.after
        file.put(replace(file.state, legs=(*file.state.legs, record)))
        tell(line_of(file.state, record))


async def _leg(settings: SoakSettings, watched: _Watched, number: int, earlier: Reading) -> LegRecord:
    server = watched.server
    target = _target(settings, server)
    reader = SlowReader(
        server.url,
        num_bytes=settings.load.slow_bytes,
        pause_s=settings.load.slow_pause_ms / 1e3,
        limit_s=settings.leg_s + settings.drain_s,
        clock=REAL_PACE.clock,
    )
    hands = Hands(target=target, read_slowly=reader.ask, neighbour=BusyNeighbour(), pace=REAL_PACE)
    await target.open()
    try:
        with quiet_collector():
            async with LoopWatch(REAL_PACE.clock) as blocks:
                run = await run_leg(settings, leg_of(settings, number), hands)
    finally:
        await target.close()
    server.require_alive(f"in leg {number + 1}")
    before = watched.before
    expected = Expected(files=before.files, tasks=before.tasks)
    after = await read_when_idle(server, expected, within_s=SETTLE_S)
    return record_of(
        run,
        number=number,
        server=watched.number,
        before=earlier,
        after=after,
        target_ms=settings.itl_target_ms,
        longest_block_ns=blocks.report().longest_block_ns,
    )


async def _warm_up(settings: SoakSettings, server: Server) -> None:
    """As many short requests as run at once, so that nothing is made for the first time later."""
    target = _target(settings, server)
    await target.open()
    first, size = settings.load.first_token, settings.load.vocabulary
    prompt = tuple(first + number % size for number in range(_WARM_UP_TOKENS))
    asks = [
        Ask(request_id=f"warm-up-{number}", prompt=prompt, max_tokens=2, fields=GREEDY)
        for number in range(settings.slots)
    ]
    try:
        await asyncio.gather(*(target.ask(ask, None) for ask in asks))
    finally:
        await target.close()


def _target(settings: SoakSettings, server: Server) -> HttpTarget:
    limits = TimeLimits(total_s=settings.leg_s + settings.drain_s)
    return HttpTarget(server.url, HttpOptions(limits=limits), clock=time.perf_counter_ns)


def _words(settings: SoakSettings) -> tuple[str, ...]:
    """The flags of the server beside those that every server gets."""
    return (
        *("--backend", settings.backend, "--flash-attn", settings.flash_attention),
        *("--batch", str(_BATCH_ROWS), "--micro-batch", str(_MICRO_BATCH)),
        *("--backlog", str(settings.backlog), "--cache-ram", str(settings.cache_mib)),
        *(("--itl-target", str(settings.itl_target_ms)) if settings.itl_target_ms else ()),
        *settings.flags,
    )


def _values(settings: SoakSettings) -> ServerValues:
    return ServerValues(
        model=settings.model,
        threads=settings.threads or len(usable_cpus()),
        slots=settings.slots,
        slot_context=settings.slot_tokens,
    )


async def _steering(settings: SoakSettings, folder: Path, tell: Tell) -> tuple[str, ...]:
    """The flag that names the cost profile, which is made once for all of the soak; none where none is wanted."""
    if not settings.itl_target_ms or not settings.calibrate_s:
        return ()
    path = folder / PROFILE
    if not path.exists():
        tell(f"calibrating, {settings.calibrate_s:g} s and some")
        plan = CalibrationPlan(
            model=settings.model,
            backend=settings.backend,
            flash_attention=settings.flash_attention,
            slots=settings.slots,
            slot_tokens=settings.slot_tokens,
            batch_rows=_BATCH_ROWS,
            micro_batch=_MICRO_BATCH,
            threads=settings.threads,
            seconds=settings.calibrate_s,
            itl_target_ms=settings.itl_target_ms,
        )
        await calibrated(plan, path)
    return ("--cost-profile", str(path))


def _note_end(file: StateFile, server: Server, number: int) -> None:
    """Write down how the server ended, if it was ever read."""
    ended = server.stop()
    servers = tuple(
        replace(each, how=str(ended.how), status=ended.status) if each.number == number else each
        for each in file.state.servers
    )
    file.put(replace(file.state, servers=servers))


def line_of(state: SoakState, record: LegRecord) -> str:
    """A leg in one line, for whoever watches."""
    after = record.after
    memory = "" if after.resident_bytes is None else f", {after.resident_bytes / (1 << 20):.0f} MiB"
    surprises = f", {record.num_surprises} surprises" if record.num_surprises else ""
    gap = "" if record.gap_p99_ns is None else f", ITL p99 {record.gap_p99_ns / 1e6:.0f} ms"
    return (
        f"leg {record.number + 1} of {state.settings.num_legs}: {record.num_ended} requests, {record.num_finished} "
        f"whole{gap}{memory}{surprises}"
    )


def _portable(text: str) -> str:
    """On one line, without absolute paths; a route of one part stays."""
    return " ".join(portable_command([word])[0] if word.count("/") > 1 else word for word in text.split())
