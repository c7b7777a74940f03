"""What `perf report --stdio -t '|' -F overhead,sample,dso,symbol` writes, as rows.

    # Samples: 396  of event 'cpu-clock:pppH'
    # Overhead|Samples|Shared Object|Symbol
    65.31%|162|libggml-cpu.so|[.] ggml_vec_dot_q8_0_q8_0
    0.02%|1|libggml-cpu.so|[.] 0x00000000000139e40

A function without a name has the address inside its file; the marker in brackets tells user from kernel. A machine with
two kinds of core has a section for each.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from arriero.core.errors import DataError
from arriero.lab.perf.lines import bad_line, bounded, decimal_number, hexadecimal, quoted, whole_number

SEPARATOR: Final = "|"
FIELDS: Final = "overhead,sample,dso,symbol"
_EVENT: Final = re.compile(r"# Samples: .*of event(?: group)?s? '(?P<event>[^']+)'")
_LOST: Final = re.compile(r"# Total Lost Samples: (?P<lost>\d{1,18})")
_SYMBOL: Final = re.compile(r"(?:\[(?P<marker>[^\]]{1,2})\] ?)?(?P<name>.*)")
_ADDRESS: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{16}", re.ASCII)
_NOTHING: Final = "[unknown]"


class ReportRow(NamedTuple):
    """One line."""

    event: str
    share: float  # of its event, 0 to 1
    samples: int
    shared_object: str
    symbol: str | None  # None without a name
    address: int | None  # inside the file, of a function without a name


class Report(NamedTuple):
    """All lines."""

    rows: tuple[ReportRow, ...]
    lost: int | None  # samples that perf says it lost

    @property
    def samples(self) -> int:
        """In all."""
        return sum(row.samples for row in self.rows)


def parse_report(text: str, *, file: str) -> Report:
    """All rows, in their order.

    Raises:
        DataError: a line is none of perf's, shares add up to more than everything, or there is no sample at all.
    """
    rows = tuple(_rows(text, file))
    if not bounded(sum(row.samples for row in rows), file=file, what="its samples"):
        raise DataError("holds no sample; the program ended too soon, or perf recorded nothing", file=file)
    for event in dict.fromkeys(row.event for row in rows):
        total = sum(row.share for row in rows if row.event == event)
        if total > 1.01 + 0.00005 * len(rows):  # each share is rounded to 0.01 %
            raise DataError(f"the shares of {event} add up to {100 * total:.1f} %; is it one report?", file=file)
    lost = [int(match["lost"]) for line in text.splitlines() if (match := _LOST.match(line))]
    return Report(rows, bounded(sum(lost), file=file, what="its lost samples") if lost else None)


def shares_of(rows: Sequence[ReportRow]) -> list[float]:
    """The share of each row of everything: perf's own for one event, the samples' where several are pooled."""
    if len({row.event for row in rows}) == 1:
        return [min(1.0, row.share) for row in rows]
    total = sum(row.samples for row in rows)
    return [row.samples / total for row in rows]


def _rows(text: str, file: str) -> Iterator[ReportRow]:
    event = "unnamed"
    for number, line in enumerate(text.splitlines(), start=1):
        named = _EVENT.match(line)
        event = event if named is None else named["event"]
        if line.strip() and not line.startswith("#"):
            yield _row(line, event, file, number)


def _row(line: str, event: str, file: str, number: int) -> ReportRow:
    fields = line.split(SEPARATOR, 3)
    if len(fields) != 4:
        raise bad_line(file, number, f"{quoted(line)} has {len(fields)} fields, not 4")
    overhead, samples, shared_object, symbol = (field.strip() for field in fields)
    percent = decimal_number(overhead.removesuffix("%"), file=file, line=number, what="the overhead")
    if percent > 100.0:
        raise bad_line(file, number, f"the overhead {percent:g} % is above 100 %")
    match = _SYMBOL.fullmatch(symbol)
    name = "" if match is None else match["name"].strip()
    if not name or not shared_object:
        raise bad_line(file, number, f"{quoted(line)} lacks an object or a symbol")
    address = hexadecimal(name, file=file, line=number, what="the symbol") if _ADDRESS.fullmatch(name) else None
    return ReportRow(
        event=event,
        share=percent / 100,
        samples=whole_number(samples, file=file, line=number, what="the number of samples"),
        shared_object=shared_object,
        symbol=None if address is not None or name == _NOTHING else name,
        address=address,
    )
