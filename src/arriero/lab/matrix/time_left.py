"""TimeLeft: how long a matrix will still take, from what its invocations took so far."""

from collections import defaultdict
from collections.abc import Iterable

from arriero.lab.matrix.cases import Invocation
from arriero.record.cpu_lab.matrix import MatrixCase


class TimeLeft:
    """A mean for each model and case; for those that have not run yet, the mean over all.

    Cases of a matrix differ by a factor of ten and more, so a mean over all would be wrong for hours.
    """

    def __init__(self) -> None:
        """Nothing is known."""
        self._by_case: defaultdict[tuple[str, MatrixCase], list[float]] = defaultdict(list)

    def note(self, invocation: Invocation, seconds: float) -> None:
        """Learn from one that has ended, with all that stands around it."""
        self._by_case[invocation.model_id, invocation.case].append(seconds)

    def left_s(self, rest: Iterable[Invocation]) -> float | None:
        """Seconds that these will take; None before the first has ended."""
        everything = [seconds for each in self._by_case.values() for seconds in each]
        if not everything:
            return None
        usual = _mean(everything)
        found = (self._by_case.get((each.model_id, each.case)) for each in rest)
        return sum(usual if known is None else _mean(known) for known in found)


def in_words(seconds: float | None) -> str:
    """A length of time for people."""
    if seconds is None:
        return "time left unknown"
    if seconds == 0:
        return "nothing left"
    if seconds < 60:
        return f"about {max(1, round(seconds))} s left"
    minutes = round(seconds / 60)
    return f"about {minutes} min left" if minutes < 120 else f"about {minutes / 60:.1f} h left"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
