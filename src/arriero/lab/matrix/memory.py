"""What a process tells of its memory: GNU time's report, and the KV buffers that llama.cpp prints."""

import re
from typing import Final

_MAXIMUM: Final = re.compile(r"Maximum resident set size \(kbytes\): (?P<number>[0-9]{1,18})\b", re.ASCII)


def wrap_in_time(program: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """The words that run a command below GNU time, which reports to standard error."""
    return (program, "-v", *command)


def gnu_time_peak(stderr: str) -> int | None:
    """The peak in KiB that GNU time has reported, or None; the last one, if the program itself wrote such a line."""
    found = [int(match["number"]) for match in _MAXIMUM.finditer(stderr)]
    return found[-1] if found else None
