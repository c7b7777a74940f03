"""Memory and control groups: what a process may have, and how often it was held back."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from arriero.lab.machine.topology import whole
from arriero.record.machine import file_text

_NO_LIMIT: Final = 2**60
"""A cgroup of version 1 without a limit says a number about as large as can be."""


def memory_info(root: Path) -> Mapping[str, int]:
    """Lines of `/proc/meminfo` in bytes, by name."""
    found: dict[str, int] = {}
    for line in (file_text(root / "proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        number = whole(rest.split()[0]) if rest.split() else None
        if number is not None:
            found[name] = number * 1024
    return found


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's cgroup and of those around it, of both versions."""
    for line in (file_text(root / "proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        bases = ["."] if number == "0" else [controllers, controller] if controller in controllers.split(",") else []
        for base in dict.fromkeys(bases):
            top = root / "sys/fs/cgroup" / base
            inner = top / group.lstrip("/")
            yield from (each for each in (inner, *inner.parents) if each == top or top in each.parents)


def memory_limits(root: Path) -> Iterator[int]:
    """Of this process's cgroup and of those around it, in bytes."""
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = whole(file_text(folder / name))
            if limit is not None and limit < _NO_LIMIT:
                yield limit


def throttled_periods(root: Path) -> int | None:
    """Periods in which the nearest cgroup that counts them ran out of its quota."""
    for folder in _groups(root, "cpu"):
        words = dict(
            line.split(maxsplit=1) for line in (file_text(folder / "cpu.stat") or "").splitlines() if " " in line
        )
        if whole(words.get("nr_periods")):  # stays 0 where there is no quota
            return whole(words.get("nr_throttled"))
    return None
