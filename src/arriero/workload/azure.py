"""The Azure LLM inference trace of 2023, conversation: arrivals and lengths, no prompts.

Published by Microsoft under CC-BY-4.0 with P. Patel et al., "Splitwise: Efficient generative LLM inference using phase
splitting", ISCA 2024.
"""

import re
from calendar import monthrange, timegm
from collections.abc import Iterator
from typing import Final

from arriero.core.errors import BadWorkload
from arriero.workload.records import WorkloadClass
from arriero.workload.traces import TraceFormat, TraceRow, check_order

_HEADER: Final = b"TIMESTAMP,ContextTokens,GeneratedTokens"
# Seven digits after the point: a hundred nanoseconds, more than date parsers take.
_STAMP: Final = re.compile(rb"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{7})", re.ASCII)
_LENGTH: Final = re.compile(rb"\d{1,18}", re.ASCII)
_TICKS_PER_S: Final = 10_000_000
_TICKS_PER_US: Final = 10


def _rows(lines: Iterator[bytes]) -> Iterator[TraceRow]:
    header = next(lines, b"")
    if _stripped(header) != _HEADER:
        raise BadWorkload(f"the header must be {_HEADER.decode()}", line=1, field="TIMESTAMP")
    first_tick: int | None = None
    last_tick = 0
    for number, line in enumerate(lines, start=2):
        try:
            stamp, prompt, output = _columns(_stripped(line))
            tick = _tick(stamp)
            if first_tick is None:
                first_tick = tick
            check_order(last_tick, tick, "TIMESTAMP")
            last_tick = tick
            yield TraceRow(
                number,
                (tick - first_tick) // _TICKS_PER_US,
                _length(prompt, "ContextTokens"),
                _length(output, "GeneratedTokens"),
            )
        except BadWorkload as error:
            raise BadWorkload(str(error), line=number, field=error.field) from None


def _stripped(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _columns(line: bytes) -> tuple[bytes, bytes, bytes]:
    columns = line.split(b",")
    if len(columns) != 3:
        raise BadWorkload(f"has {len(columns)} columns; write TIMESTAMP,ContextTokens,GeneratedTokens")
    return columns[0], columns[1], columns[2]


def _tick(stamp: bytes) -> int:
    """Hundreds of nanoseconds since 1970."""
    match = _STAMP.fullmatch(stamp)
    if match is not None:
        year, month, day, hour, minute, second, fraction = map(int, match.groups())
        is_day = year >= 1970 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]
        if is_day and hour <= 23 and minute <= 59 and second <= 59:
            return timegm((year, month, day, hour, minute, second)) * _TICKS_PER_S + fraction
    raise BadWorkload(
        f"TIMESTAMP: {stamp[:40]!r} is no time; write YYYY-MM-DD hh:mm:ss.fffffff from 1970 on", field="TIMESTAMP"
    )


def _length(column: bytes, field: str) -> int:
    if not _LENGTH.fullmatch(column):
        raise BadWorkload(f"{field}: {column[:40]!r} is no count of tokens; write digits", field=field)
    return int(column)


AZURE: Final = TraceFormat(
    name="azure-conv-2023",
    sha256="2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
    num_rows=19_366,
    workload_class=WorkloadClass.CHAT,
    line_word="CSV",
    block_tokens=0,
    rows=_rows,
)
