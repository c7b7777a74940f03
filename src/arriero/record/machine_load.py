"""What the machine was busy with while something was measured: by the generator, by the server, by everybody else.

Two snapshots of the CPU times in `/proc`, one before and one after; nothing is read in between, so that the watching
does not disturb what it watches. A process that ended in between is missing from the second snapshot; its time is part
of the machine's, and so of `other_cores`. Take the second one while the server is still there.
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.metrics.validity import BusyProcess
from arriero.record.machine import ROOT

_SHOWN: Final = 5
_LEAST_CORES: Final = 0.01
_NO_TIMES: Final = "/proc/stat cannot be read here"
BUSY_CORES: Final = 0.7
"""Cores kept busy by others above which it makes no sense to begin to measure."""


class LoadFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What kept the machine busy over a stretch of time.

    Attributes:
        seconds: length of the stretch.
        load_average: over 1, 5 and 15 minutes at its end.
        busy_cores: kept busy by everybody.
        own_cores: of these, by the generator and what it started.
        server_cores: of these, by the server and what it started; null if it is elsewhere.
        other_cores: of these, by all others.
        stolen_cores: that the hypervisor gave to somebody else.
        others: the busiest other processes, then all further ones together, then stolen time; most cores first.
        reasons: name of a fact that is null -> why.
    """

    seconds: float
    load_average: tuple[float, float, float] | None
    busy_cores: float | None
    own_cores: float | None
    server_cores: float | None
    other_cores: float | None
    stolen_cores: float | None
    others: tuple[BusyProcess, ...]
    reasons: dict[str, str]


class ProcessTicks(NamedTuple):
    """One process."""

    name: str
    parent: int
    started: int  # ticks after boot: tells processes apart that bear one id
    ticks: int


class CpuSnapshot(NamedTuple):
    """CPU time of the machine and of its processes at one moment."""

    at_ns: int  # of the monotonic clock
    busy_ticks: int | None  # of all cores since boot; None where they cannot be read
    stolen_ticks: int
    processes: Mapping[int, ProcessTicks]  # by process id
    load_average: tuple[float, float, float] | None


def take_snapshot(root: Path = ROOT) -> CpuSnapshot:
    """Read the CPU times now; about 5 ms for 100 processes, so around a measurement and not within."""
    busy, stolen = _machine_ticks(root / "proc/stat")
    return CpuSnapshot(
        at_ns=time.monotonic_ns(),
        busy_ticks=busy,
        stolen_ticks=stolen,
        processes=dict(_processes(root / "proc")),
        load_average=_load_average(),
    )


def load_between(
    first: CpuSnapshot, second: CpuSnapshot, *, own: Collection[int] = (), server: Collection[int] = ()
) -> LoadFacts:
    """What kept the machine busy between two moments.

    Args:
        first: earlier.
        second: later.
        own: process ids of the generator besides this one; what they started belongs to it, but for the server's.
        server: process ids of the server; what they started belongs to it.
    """
    seconds = max(1, second.at_ns - first.at_ns) / 1e9
    per_core = os.sysconf("SC_CLK_TCK") * seconds
    reasons = {} if server else {"server_cores": "the server is no process of this machine that we know of"}
    if second.load_average is None:
        reasons["load_average"] = "this system keeps none"
    if first.busy_ticks is None or second.busy_ticks is None:
        reasons |= dict.fromkeys(("busy_cores", "other_cores", "own_cores", "server_cores", "stolen_cores"), _NO_TIMES)
        return _nothing(seconds, second, reasons)
    spent = {pid: _spent(each, first.processes.get(pid)) / per_core for pid, each in second.processes.items()}
    owners = _owners(second.processes, {os.getpid(), *own}, set(server))
    own_cores = sum(spent[pid] for pid, owner in owners.items() if owner == "own")
    server_cores = sum(spent[pid] for pid, owner in owners.items() if owner == "server")
    busy = (second.busy_ticks - first.busy_ticks) / per_core
    stolen = (second.stolen_ticks - first.stolen_ticks) / per_core
    other = max(0.0, busy - own_cores - server_cores)
    rest = [BusyProcess(name=second.processes[pid].name, cores=spent[pid]) for pid in spent if pid not in owners]
    return LoadFacts(
        seconds=seconds,
        load_average=second.load_average,
        busy_cores=busy,
        own_cores=own_cores,
        server_cores=server_cores if server else None,
        other_cores=other,
        stolen_cores=stolen,
        others=_busiest(rest, other, stolen),
        reasons=reasons,
    )


def busy_now(seconds: float = 1.0, *, limit: float = BUSY_CORES, leave_out: Collection[int] = ()) -> str | None:
    """One line if others keep the machine busy now, else None; waits for a moment to see.

    Args:
        seconds: to watch.
        limit: cores that they may keep busy.
        leave_out: process ids that belong to whoever asks, with what they started.
    """
    first = take_snapshot()
    time.sleep(seconds)
    load = load_between(first, take_snapshot(), own=leave_out)
    if load.other_cores is None or load.other_cores < limit:
        return None
    names = ", ".join(f"{each.name} {each.cores:.2f}" for each in load.others)
    return f"the machine is busy: others use {load.other_cores:.2f} cores ({names}); figures would mean nothing"


def _nothing(seconds: float, second: CpuSnapshot, reasons: dict[str, str]) -> LoadFacts:
    return LoadFacts(
        seconds=seconds,
        load_average=second.load_average,
        busy_cores=None,
        own_cores=None,
        server_cores=None,
        other_cores=None,
        stolen_cores=None,
        others=(),
        reasons=reasons,
    )


def _spent(now: ProcessTicks, before: ProcessTicks | None) -> int:
    if before is None or before.started != now.started:
        return now.ticks
    return now.ticks - before.ticks


def _owners(processes: Mapping[int, ProcessTicks], own: set[int], server: set[int]) -> dict[int, str]:
    """Process id -> `own` or `server`, by the nearest ancestor that is one of them; nobody else's are in it."""
    found: dict[int, str] = {}
    for pid in processes:
        at, seen = pid, set[int]()
        while at in processes and at not in seen and at not in own | server:
            seen.add(at)
            at = processes[at].parent
        if at in server:
            found[pid] = "server"
        elif at in own:
            found[pid] = "own"
    return found


def _busiest(rest: list[BusyProcess], other: float, stolen: float) -> tuple[BusyProcess, ...]:
    shown = sorted((each for each in rest if each.cores >= _LEAST_CORES), key=lambda each: (-each.cores, each.name))
    shown = shown[:_SHOWN]
    further = other - sum(each.cores for each in shown)
    if further >= _LEAST_CORES:
        shown.append(BusyProcess(name="all others", cores=further))
    if stolen >= _LEAST_CORES:
        shown.append(BusyProcess(name="stolen by the hypervisor", cores=stolen))
    return tuple(shown)


def _machine_ticks(path: Path) -> tuple[int | None, int]:
    """Busy and stolen ticks since boot; waiting for a disk is not busy."""
    try:
        words = path.read_text(encoding="ascii").splitlines()[0].split()[1:]
        user, nice, system, _idle, _wait, interrupts, soft, stolen = (int(word) for word in words[:8])
    except (OSError, ValueError, IndexError):
        return None, 0
    return user + nice + system + interrupts + soft, stolen


def _processes(proc: Path) -> Iterator[tuple[int, ProcessTicks]]:
    try:
        folders = [folder for folder in proc.iterdir() if folder.name.isdigit()]
    except OSError:
        return
    for folder in folders:
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            continue
        # `12 (a name) with) anything) S 1 ...`: fields are counted from the last bracket
        head, _, tail = text.rpartition(")")
        fields = tail.split()
        name = head.partition("(")[2]
        yield int(folder.name), ProcessTicks(name, int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12]))


def _load_average() -> tuple[float, float, float] | None:
    try:
        return os.getloadavg()
    except (OSError, AttributeError):
        return None
