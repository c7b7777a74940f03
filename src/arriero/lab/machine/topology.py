"""Caches, cores and nodes of a machine, as `/sys` tells them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.record.cpu_lab.machine_details import CacheFacts, NodeFacts
from arriero.record.machine import file_text

_UNITS: Final = MappingProxyType({"K": 2**10, "M": 2**20, "G": 2**30})


class _Cache(NamedTuple):
    """What one CPU says of one of its caches."""

    level: int
    kind: str
    size: int
    shared: tuple[int, ...]


def cpu_list(text: str | None) -> tuple[int, ...]:
    """The CPUs of a text such as `0-3,8`; those that are no numbers are left out."""
    found: list[int] = []
    for part in (text or "").split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (last.isdecimal() or not last):
            found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)


def siblings(folder: Path, cpus: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The CPUs given, by core, ascending; empty if one of them does not tell.

    `folder` is `/sys/devices/system/cpu`.
    """
    groups: set[tuple[int, ...]] = set()
    for cpu in cpus:
        core = cpu_list(file_text(folder / f"cpu{cpu}/topology/thread_siblings_list"))
        if cpu not in core:
            return ()
        groups.add(tuple(each for each in core if each in cpus))
    return tuple(sorted(groups))


def caches(folder: Path, cpus: tuple[int, ...]) -> tuple[CacheFacts, ...]:
    """Of the CPUs given, each instance once; nearest first. `folder` is `/sys/devices/system/cpu`."""
    instances = {cache for cpu in cpus for cache in _caches_of(folder / f"cpu{cpu}/cache")}
    counted = Counter((each.level, each.kind, each.size, len(each.shared)) for each in instances)
    return tuple(
        CacheFacts(level=level, kind=kind, bytes=size, cpus=max(1, num_cpus), instances=number)
        for (level, kind, size, num_cpus), number in sorted(counted.items())
    )


def _caches_of(folder: Path) -> Iterator[_Cache]:
    for index in sorted(folder.glob("index*")):
        level, size = whole(file_text(index / "level")), _size(file_text(index / "size"))
        kind = file_text(index / "type")
        if level and size and kind:
            yield _Cache(level, kind, size, cpu_list(file_text(index / "shared_cpu_list")))


def nodes(folder: Path) -> Iterator[NodeFacts]:
    """By number; `folder` is `/sys/devices/system/node`."""
    folders = folder.glob("node[0-9]*")
    for node in sorted(folders, key=lambda path: int(path.name.removeprefix("node"))):
        lines = (file_text(node / "meminfo") or "").splitlines()
        words = next((line for line in lines if "MemTotal" in line), "").split()
        total = whole(words[3]) if len(words) > 3 else None
        yield NodeFacts(
            node=int(node.name.removeprefix("node")),
            cpus=cpu_list(file_text(node / "cpulist")),
            memory_bytes=None if total is None else total * 1024,
        )


def whole(text: str | None) -> int | None:
    """The whole number that a text is; None for anything else."""
    stripped = (text or "").strip()
    return int(stripped) if stripped.removeprefix("-").isdecimal() else None


def _size(text: str | None) -> int | None:
    """Bytes of a text such as `32K`."""
    stripped = (text or "").strip()
    number = whole(stripped.rstrip("KMG"))
    return None if number is None else number * _UNITS.get(stripped[-1:], 1)
