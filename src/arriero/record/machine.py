"""Facts about the machine that stand beside every figure.

Read from `/proc` and `/sys` where there are such; a fact that cannot be read is null, with the reason under its own
name. What the machine was busy with is in `machine_load.py`. Nothing here starts a process.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path("/")
_UNREADABLE: Final = "{} cannot be read here"


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What does not change during a run.

    Attributes:
        cpu: the model's name.
        cores: that this process may use.
        cores_online: of the machine.
        cgroup_cores: CPU time that the cgroup allows, in cores; null without a limit.
        governor: of the first core's frequency.
        frequency_mhz: of the first core, at the moment of reading.
        virtualised: whether a hypervisor says that it is there.
        memory_bytes: of the machine.
        kernel: system and release.
        python: version and implementation.
        reasons: name of a fact that is null -> why.
    """

    cpu: str | None
    cores: int
    cores_online: int | None
    cgroup_cores: float | None
    governor: str | None
    frequency_mhz: float | None
    virtualised: bool | None
    memory_bytes: int | None
    kernel: str
    python: str
    reasons: dict[str, str]


def machine_facts(root: Path = ROOT) -> MachineFacts:
    """Read them now; `root` is where `proc` and `sys` are."""
    info = _fields(root / "proc/cpuinfo")
    cpu = root / "sys/devices/system/cpu"
    flags = info.get("flags")
    memory = _fields(root / "proc/meminfo").get("MemTotal", "").split()
    found = {
        "cpu": info.get("model name"),
        "cores_online": os.cpu_count(),
        "cgroup_cores": min(_cgroup_limits(root), default=None),
        "governor": file_text(cpu / "cpu0/cpufreq/scaling_governor"),
        "frequency_mhz": as_number(info.get("cpu MHz")),
        "virtualised": None if flags is None else "hypervisor" in flags.split(),
        "memory_bytes": int(memory[0]) * 1024 if memory and memory[0].isdigit() else None,
    }
    sources = {
        "cpu": "/proc/cpuinfo: model name",
        "cores_online": "the number of cores",
        "governor": "/sys/devices/system/cpu/cpu0/cpufreq",
        "frequency_mhz": "/proc/cpuinfo: cpu MHz",
        "virtualised": "/proc/cpuinfo: flags",
        "memory_bytes": "/proc/meminfo: MemTotal",
    }
    reasons = {name: _UNREADABLE.format(source) for name, source in sources.items() if found[name] is None}
    if found["cgroup_cores"] is None:
        reasons["cgroup_cores"] = "no limit is set, or none that can be seen from here"
    values = {
        **found,
        "cores": len(usable_cpus()),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": python_version(),
        "reasons": dict(sorted(reasons.items())),
    }
    return msgspec.convert(values, MachineFacts)


def python_version() -> str:
    """Version and implementation of this interpreter."""
    return f"{platform.python_version()} ({sys.implementation.name})"


def usable_cpus() -> tuple[int, ...]:
    """The CPUs that this process may run on, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def fact_lines(facts: MachineFacts) -> dict[str, str]:
    """The facts as a few words each, for tables."""
    limit = "" if facts.cgroup_cores is None else f", limited to {facts.cgroup_cores:g}"
    memory = "unknown" if facts.memory_bytes is None else f"{facts.memory_bytes / 2**30:.1f} GiB"
    return {
        "cpu": facts.cpu or "unknown",
        "cores": f"{facts.cores}{limit}",
        "governor": facts.governor or "unknown",
        "virtualised": {True: "yes", False: "no", None: "unknown"}[facts.virtualised],
        "memory": memory,
        "kernel": facts.kernel,
        "python": facts.python,
    }


def _fields(path: Path) -> Mapping[str, str]:
    """`name : value` lines; the first of each name."""
    found: dict[str, str] = {}
    for line in (file_text(path) or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


def file_text(path: Path) -> str | None:
    """The stripped text of a small file of the system; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def as_number(text: str | None) -> float | None:
    """The number that a text is; None for anything else."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _cgroup_limits(root: Path) -> Iterator[float]:
    """Limits of this process's cgroup and of those around it, in cores; version 2 and 1."""
    for line in (file_text(root / "proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0":
            yield from _limits_up(root / "sys/fs/cgroup", group, _limit_v2)
        elif "cpu" in controllers.split(","):
            yield from _limits_up(root / "sys/fs/cgroup" / controllers, group, _limit_v1)
            yield from _limits_up(root / "sys/fs/cgroup/cpu", group, _limit_v1)


def _limits_up(base: Path, group: str, limit: Callable[[Path], float | None]) -> Iterator[float]:
    inner = base / group.lstrip("/")
    for folder in (inner, *inner.parents):
        if not folder.is_relative_to(base):
            return
        found = limit(folder)
        if found is not None:
            yield found


def _limit_v2(folder: Path) -> float | None:
    words = (file_text(folder / "cpu.max") or "").split()
    return _quotient(*words) if len(words) == 2 else None


def _limit_v1(folder: Path) -> float | None:
    return _quotient(file_text(folder / "cpu.cfs_quota_us"), file_text(folder / "cpu.cfs_period_us"))


def _quotient(quota: str | None, period: str | None) -> float | None:
    """Quota / period; None for `max`, for -1 and for what is no number."""
    part, whole = as_number(quota), as_number(period)
    return part / whole if part is not None and whole and part > 0 else None
