"""Probe: what each event can do on this machine, tried alone with a trivial program.

Alone, so that no event can push another off the counters; several times, so that one that counts only now and then is
found out. Whatever is not `supported` is left out of every run.
"""

import re
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from arriero.core.errors import DataError
from arriero.lab.perf.events import EVENTS, NEVER_ZERO, STEADY
from arriero.lab.perf.stat_csv import SEPARATOR, parse_stat
from arriero.lab.perf.tools import DENIED, PLAIN, Tool, first_line, perf_event_paranoid
from arriero.lab.process import Finished, run_process
from arriero.lab.scratch import scratch_folder
from arriero.record.cpu_lab.perf_counters import Counter, EventClass, Probe, ProbedEvent

TRIES: Final = 3
_PATIENCE_S: Final = 20.0
_WIDEST: Final = 2.0  # the largest try over the smallest, of an event that is the same each time
_UNKNOWN: Final = re.compile(
    r"syntax error|unknown|parser error|invalid|cannot find|not found|bad event", re.IGNORECASE
)
_UNABLE: Final = re.compile(r"not supported|ENOTSUP|EOPNOTSUPP|no such device|ENODEV|ENOENT", re.IGNORECASE)


class Try(NamedTuple):
    """One event, counted once."""

    counter: Counter | None  # None if perf wrote none
    complaint: str | None  # what perf said if it failed


def probe_events(
    tool: Tool, events: Sequence[str] = EVENTS, *, tries: int = TRIES, tell: Callable[[str], None] | None = None
) -> Probe:
    """Every event, one by one.

    Args:
        tool: perf.
        events: as perf names them.
        tries: of each event.
        tell: is told each result.
    """
    found: list[ProbedEvent] = []
    for event in events:
        seen = classified(event, [_try(tool, event) for _ in range(tries)])
        found.append(seen)
        if tell is not None:
            tell(f"{event}: {seen.kind}" + (f" ({seen.reason})" if seen.reason else ""))
    return Probe(tool=tool.words, paranoid=perf_event_paranoid(), events=tuple(found))


def classified(event: str, tries: Sequence[Try]) -> ProbedEvent:
    """What the tries of one event say."""
    kind, reason = _verdict(event, tries)
    values = tuple(None if each.counter is None else each.counter.value for each in tries)
    return ProbedEvent(event=event, kind=kind, values=values, reason=reason)


def _verdict(event: str, tries: Sequence[Try]) -> tuple[EventClass, str | None]:
    counters = [each.counter for each in tries if each.counter is not None]
    if not counters:
        complaint = next((each.complaint for each in tries if each.complaint), "perf wrote nothing")
        return _refused(complaint), complaint
    if all(counter.reason == "not supported" for counter in counters):
        return EventClass.UNSUPPORTED, "perf says that it is not supported here"
    doubt = _doubt(event, counters, len(tries))
    return (EventClass.SUPPORTED, None) if doubt is None else (EventClass.NOISY, doubt)


def _refused(complaint: str) -> EventClass:
    if DENIED.search(complaint):
        return EventClass.DENIED
    if _UNABLE.search(complaint) and not _UNKNOWN.search(complaint):
        return EventClass.UNSUPPORTED
    return EventClass.UNAVAILABLE


def _doubt(event: str, counters: Sequence[Counter], tries: int) -> str | None:
    """Why an event that was counted cannot be relied on."""
    values = [counter.value for counter in counters if counter.value is not None]
    if len(values) < tries:
        return f"counted in {len(values)} of {tries} tries"
    part = [counter.running_percent for counter in counters if counter.is_multiplexed]
    if part:
        return f"was on the counter for {min(each for each in part if each is not None):g} % of the time, though alone"
    if event in NEVER_ZERO and min(values) == 0:
        return "counted 0, which no program can have"
    if event in STEADY and max(values) > _WIDEST * min(values):
        return f"counted {min(values):g} to {max(values):g} for the same program"
    return None


def _try(tool: Tool, event: str) -> Try:
    with scratch_folder("probe") as folder:
        written = folder / "stat.csv"
        done = run_process(
            (tool.path, "stat", "-x", SEPARATOR, "-o", str(written), "-e", event, "--", *trivial_program()),
            timeout_s=_PATIENCE_S,
            environment=PLAIN,
        )
        text = written.read_text(encoding="utf-8", errors="replace") if written.exists() else ""
    return _tried(event, done, text)


def _tried(event: str, done: Finished, text: str) -> Try:
    if done.return_code != 0 or done.timed_out:
        return Try(None, _complaint(done))
    try:
        counters = parse_stat(text, file="perf stat")
    except DataError as error:
        return Try(None, str(error))
    if len(counters) != 1:
        return Try(None, f"{event} is {len(counters)} counters, which cannot be told apart")
    return Try(counters[0], None)


def _complaint(done: Finished) -> str:
    """The line that tells most: perf's first line is often only `Error:`."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip(" _/\\^|")]
    telling = [line for line in lines if DENIED.search(line) or _UNKNOWN.search(line) or _UNABLE.search(line)]
    return telling[0] if telling else first_line(done)


def trivial_program() -> tuple[str, ...]:
    """A program that starts and ends."""
    path = shutil.which("true")
    return (sys.executable, "-c", "pass") if path is None else (path,)
