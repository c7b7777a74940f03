"""What `perf stat -x ,` writes, as counters.

    value, unit, event, run time in ns, percentage of the time on a hardware counter, metric, unit of the metric

`<not supported>` and `<not counted>` stand in the place of a value; they become null with the reason, never 0. A line
without value and event goes on with another metric of the line before; metrics are perf's own quotients, and left out.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from arriero.core.errors import DataError
from arriero.lab.perf.lines import bad_line, decimal_number, quoted, whole_number
from arriero.record.cpu_lab.perf_counters import Counter, Scope

SEPARATOR: Final = ","
_SUFFIX: Final = re.compile(r"(?P<event>.+):(?P<scopes>[ukhp]{1,8})", re.ASCII)
_MISSING: Final = re.compile(r"<(?P<reason>not (?:supported|counted))>")
_LEAST_FIELDS: Final = 5


def parse_stat(text: str, *, file: str) -> tuple[Counter, ...]:
    """All counters, in their order.

    Args:
        text: of the file that perf wrote.
        file: its name, for complaints.

    Raises:
        DataError: a line is none of perf's, an event stands twice, or there is no counter at all.
    """
    found = tuple(_counters(text, file))
    if not found:
        raise DataError("holds no counter; perf counted nothing", file=file)
    return found


def _counters(text: str, file: str) -> Iterator[Counter]:
    seen = set[tuple[str, tuple[Scope, ...]]]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split(SEPARATOR)]
        if _goes_on(fields):
            continue
        counter = _counter(fields, file, number)
        if (counter.event, counter.scopes) in seen:
            raise bad_line(file, number, f"{counter.event} stands twice")
        seen.add((counter.event, counter.scopes))
        yield counter


def split_event(name: str) -> tuple[str, tuple[Scope, ...]]:
    """An event's name without `:u`, `:k`, `:h`, `:p`, and what they say; other colons belong to the name."""
    match = _SUFFIX.fullmatch(name)
    return (name, ()) if match is None else (match["event"], tuple(dict.fromkeys(map(Scope, match["scopes"]))))


def _goes_on(fields: list[str]) -> bool:
    return len(fields) >= _LEAST_FIELDS and not fields[0] and not fields[2]


def _counter(fields: list[str], file: str, line: int) -> Counter:
    if len(fields) < _LEAST_FIELDS:
        raise bad_line(file, line, f"{quoted(SEPARATOR.join(fields))} has {len(fields)} fields, not {_LEAST_FIELDS}")
    text, unit, name, run_time, percent = fields[:_LEAST_FIELDS]
    if not name:
        raise bad_line(file, line, "the event has no name")
    event, scopes = split_event(name)
    share = decimal_number(percent, file=file, line=line, what="the percentage") if percent else None
    if share is not None and share > 100.0:
        raise bad_line(file, line, f"the percentage {share:g} is above 100")
    missing = _MISSING.fullmatch(text)
    return Counter(
        event=event,
        scopes=scopes,
        value=None if missing else decimal_number(text, file=file, line=line, what="the value"),
        unit=unit,
        run_time_ns=whole_number(run_time, file=file, line=line, what="the run time") if run_time else None,
        running_percent=share,
        reason=missing["reason"] if missing else None,
    )


def by_event(counters: Iterable[Counter]) -> dict[str, Counter]:
    """Event -> its counter: the one without a suffix if there are several."""
    ordered = sorted(counters, key=lambda each: len(each.scopes), reverse=True)
    return {each.event: each for each in ordered}
