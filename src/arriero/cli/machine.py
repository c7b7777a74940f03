"""How many cores this process may use: its CPU affinity, then the quota of its control groups."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_GROUP: Final = Path("/proc/self/cgroup")


def available_cores(cgroups: Path = _CGROUPS, own_group: Path = _OWN_GROUP) -> int:
    """Whole cores, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *(int(quota) for quota in _quotas(cgroups, own_group))]))


def _quotas(cgroups: Path, own_group: Path) -> Iterator[float]:
    """Cores that each control group from the own one upward allows; unlimited ones say nothing."""
    for folder in _folders(cgroups, own_group):
        words = _read(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit():
            yield int(words[0]) / int(words[1])
    old = cgroups / "cpu"
    quota, period = _read(old / "cpu.cfs_quota_us"), _read(old / "cpu.cfs_period_us")
    if quota.isdigit() and period.isdigit():  # -1 is no quota
        yield int(quota) / int(period)


def _folders(cgroups: Path, own_group: Path) -> Iterator[Path]:
    own = next((line[3:] for line in _read(own_group).splitlines() if line.startswith("0::")), "/")
    folder = cgroups / own.lstrip("/")
    yield folder
    yield from (parent for parent in folder.parents if parent.is_relative_to(cgroups))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
