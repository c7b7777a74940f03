"""KV memory as llama.cpp prints it while a context is made; never inferred from anything else."""

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

_KV_LINE: Final = re.compile(r"KV buffer size\s*=\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>KiB|MiB|GiB)", re.ASCII)
_UNITS: Final = MappingProxyType({"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30})


def kv_bytes_of(lines: Iterable[str]) -> int | None:
    """The sum of all `KV buffer size = x KiB|MiB|GiB`, in bytes; None without one."""
    found = [match for line in lines for match in _KV_LINE.finditer(line)]
    if not found:
        return None
    return sum(round(float(match["number"]) * _UNITS[match["unit"]]) for match in found)
