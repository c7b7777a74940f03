"""Two runs side by side; refused unless they were asked the same and judged alike."""

from typing import Any, Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.record.lab_file import LabResult
from arriero.record.lab_report import lookup

NOT_AVAILABLE: Final = "N/A"


class Difference(NamedTuple):
    """One metric of A and B."""

    name: str
    first: float | None
    second: float | None
    delta: float | None  # B - A; None where it would mislead or is undefined

    @property
    def percent(self) -> float | None:
        """The difference against A."""
        return None if self.delta is None or not self.first else self.delta / self.first * 100


_METRICS: Final = (
    ("request_throughput_per_s", "request_throughput_per_s", True),
    ("p99_ttft_us", "ttft_us.p99", True),
    ("scheduled_prefill_tokens", "scheduled_prefill_tokens", False),
)
"""Name, metric, and whether its difference means nothing unless both served the same."""


def compare(first: LabResult, second: LabResult) -> list[Difference]:
    """Completed requests, and the differences of rate, P99 TTFT and scheduled prefill tokens.

    Rates and latencies are compared only if both runs have equally many requests and completed equally many.

    Raises:
        ConfigError: workload, seed, backend or objectives differ; nothing is compared across those.
    """
    require_alike(first, second)
    ours, theirs = first.metrics(), second.metrics()
    is_fair = all(ours[name] == theirs[name] for name in ("completed", "request_count"))
    found = [_difference("completed", ours["completed"], theirs["completed"], is_fair=True)]
    for name, metric, needs_fair in _METRICS:
        values = lookup(ours, metric), lookup(theirs, metric)
        found.append(_difference(name, *values, is_fair=is_fair or not needs_fair))
    return found


def require_alike(first: LabResult, second: LabResult) -> None:
    """Refuse runs of different work.

    Raises:
        ConfigError: names what differs.
    """
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("workload", first.run.workload_sha256, second.run.workload_sha256),
        ("seed", first.run.seed, second.run.seed),
        ("backend", first.config.backend, second.config.backend),
        ("slos", first.config.slos, second.config.slos),
    )
    differing = [name for name, ours, theirs in pairs if ours != theirs]
    if differing:
        names = f"{first.config.name} and {second.config.name}"
        raise ConfigError(f"{names} differ in {', '.join(differing)}; compare runs that share all of them")


def as_markdown(first: str, second: str, differences: list[Difference]) -> str:
    """A table of the two."""
    lines = [f"| metric | {first} | {second} | delta | delta % |", "| --- | ---: | ---: | ---: | ---: |"]
    for each in differences:
        cells = (_shown(each.first), _shown(each.second), _shown(each.delta, sign="+"), _shown(each.percent, sign="+"))
        lines.append(f"| {each.name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _difference(name: str, first: float | None, second: float | None, *, is_fair: bool) -> Difference:
    delta = second - first if is_fair and first is not None and second is not None else None
    return Difference(name, first, second, delta)


def _shown(value: float | None, sign: str = "") -> str:
    if value is None:
        return NOT_AVAILABLE
    return f"{value:{sign}.2f}" if value % 1 else f"{value:{sign}.0f}"
