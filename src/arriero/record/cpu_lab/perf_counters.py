"""Counters as they are kept: what each event can do on a machine, and what it counted in one invocation."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from arriero.record.bench_parts import BenchPart
from arriero.record.strict import Count, Name

Percent = Annotated[float, Meta(ge=0.0, le=100.0)]


class EventClass(StrEnum):
    """What a probe with a trivial program found; only supported events are counted in a run."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"
    DENIED = "permission denied"
    UNAVAILABLE = "unavailable"
    NOISY = "noisy or unreliable"


class Scope(StrEnum):
    """The part of a machine's work that an event was told to count; perf says it after a colon."""

    USER = "u"
    KERNEL = "k"
    HYPERVISOR = "h"
    PRECISE = "p"


class Counter(BenchPart, frozen=True, kw_only=True):
    """One event in one invocation.

    Attributes:
        event: its name without a suffix.
        scopes: what stood after the colon; empty for everything that may be counted.
        value: what was counted, in `unit`; null if nothing was.
        unit: as perf says it; empty for plain counts.
        run_time_ns: for how long the event was on a hardware counter; null if it is not told.
        running_percent: of the time for which it was asked; below 100 the value is scaled up from a part.
        reason: why there is no value.
    """

    event: Name
    scopes: tuple[Scope, ...] = ()
    value: float | None
    unit: str
    run_time_ns: Count | None
    running_percent: Percent | None
    reason: str | None = None

    @property
    def is_multiplexed(self) -> bool:
        """Whether the value is an estimate, since events took turns."""
        return self.value is not None and self.running_percent is not None and self.running_percent < 100.0


class ProbedEvent(BenchPart, frozen=True, kw_only=True):
    """One event on this machine.

    Attributes:
        event: as it is asked for.
        kind: what it can do here.
        values: of each try, null where nothing was counted.
        reason: why it is not supported; null if it is.
    """

    event: Name
    kind: EventClass
    values: tuple[float | None, ...]
    reason: str | None = None


class Probe(BenchPart, frozen=True, kw_only=True):
    """All events on this machine, one by one.

    Attributes:
        tool: the program and its version; null if there is none.
        paranoid: `kernel.perf_event_paranoid`; null where it cannot be read.
        events: in the order in which they were asked for.
        reason: why nothing could be probed at all; null if something was.
    """

    tool: str | None
    paranoid: int | None
    events: tuple[ProbedEvent, ...]
    reason: str | None = None

    @property
    def supported(self) -> tuple[str, ...]:
        """The events that may be combined."""
        return tuple(each.event for each in self.events if each.kind is EventClass.SUPPORTED)
