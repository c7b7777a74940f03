"""How many slots were busy in how many decode calls: what llama-server exports, and arriero under its names."""

import re
from dataclasses import dataclass
from typing import Final

from arriero.bench.experiments.calls import CallFailed
from arriero.bench.experiments.samples import ratio

CALLS: Final = "llamacpp:n_decode_total"
BUSY: Final = "llamacpp:n_busy_slots_per_decode"
_SAMPLE: Final = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{[^}]*\})? (?P<value>\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """Since a server started, or between two readings.

    Attributes:
        calls: decode calls.
        busy_slots: slots at work, summed over the calls.
    """

    calls: float
    busy_slots: float

    @property
    def mean_active(self) -> float | None:
        """Busy slots of a call; None without a call."""
        return ratio(self.busy_slots, self.calls)

    def since(self, before: "SlotCounts") -> "SlotCounts":
        """What came after an earlier reading."""
        return SlotCounts(self.calls - before.calls, self.busy_slots - before.busy_slots)


def slot_counts(page: object) -> SlotCounts:
    """Read a metrics page.

    Raises:
        CallFailed: it does not show these figures.
    """
    found = {match["name"]: match["value"] for match in _SAMPLE.finditer(page if isinstance(page, str) else "")}
    try:
        calls = float(found[CALLS])
        return SlotCounts(calls, float(found[BUSY]) * calls)
    except (KeyError, ValueError) as error:
        raise CallFailed(f"the metrics page shows no {CALLS} and {BUSY}; llama-server needs --metrics") from error
