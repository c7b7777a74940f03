"""ConditionSample: what the machine was like at one moment, just before or just after something was measured.

One sample stands on each side of every invocation, so that a reader can tell which figures were taken beside a busy
neighbour, while the hypervisor took time away, or on a hot core. What cannot be read is null, with the reason.
"""

import msgspec

from arriero.metrics.validity import BusyProcess


class ConditionSample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The machine over a short stretch of time.

    Attributes:
        taken_at: wall clock in UTC, ISO 8601, at the end of the stretch; for reading only.
        seconds: length of the stretch that `steal_share` and `other_cores` are about.
        load_average: over 1, 5 and 15 minutes.
        frequency_mhz: mean over the cores that this process may use.
        temperature_c: of the hottest sensor of the processor.
        steal_share: part of the usable cores' time that the hypervisor gave to somebody else, 0 to 1.
        other_cores: kept busy by processes that are neither this one nor started by it.
        others: the busiest of them.
        reasons: name of a field that is null -> why.
    """

    taken_at: str
    seconds: float
    load_average: tuple[float, float, float] | None
    frequency_mhz: float | None
    temperature_c: float | None
    steal_share: float | None
    other_cores: float | None
    others: tuple[BusyProcess, ...]
    reasons: dict[str, str]
