"""What a server's process group uses of the machine: memory and CPU time, as Linux tells it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_KIB: Final = 1024


class Usage(NamedTuple):
    """Of all living processes of one group; CPU time of those that have ended is lost."""

    resident_bytes: int  # pages that two of them share count twice
    peak_bytes: int
    cpu_s: float


def usage_of(group: int, proc: Path = _PROC) -> Usage | None:
    """What a process group uses now; None where the system does not say, or the group is gone."""
    found = list(_members(group, proc))
    if not found:
        return None
    return Usage(
        sum(each.resident_bytes for each in found),
        sum(each.peak_bytes for each in found),
        sum(each.cpu_s for each in found),
    )


def _members(group: int, proc: Path) -> Iterator[Usage]:
    ticks = os.sysconf("SC_CLK_TCK")
    for pid, stat in _stats(group, proc):
        resident, peak = _memory(proc / str(pid) / "status")
        yield Usage(resident, peak, (int(stat[11]) + int(stat[12])) / ticks)


def _stats(group: int, proc: Path) -> Iterator[tuple[int, list[bytes]]]:
    """Pid and the fields of `stat` after the name, which may hold anything: state, parent, group ..."""
    try:
        names = os.listdir(proc)  # noqa: PTH208 - read around each round: four times as quick as by paths
    except OSError:
        return
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"{proc}/{name}/stat", "rb") as file:  # noqa: PTH123 - same
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if len(fields) > 12 and int(fields[2]) == group and fields[0] != b"Z":
            yield int(name), fields


def _memory(status: Path) -> tuple[int, int]:
    """Resident and greatest resident bytes; zeros if the process has ended."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0, 0
    values = {name: text for name, _, text in (line.partition(":") for line in lines)}
    resident, peak = (int(values.get(name, "0").split()[0]) * _KIB for name in ("VmRSS", "VmHWM"))
    return resident, peak
