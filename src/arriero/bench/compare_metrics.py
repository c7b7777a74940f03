"""The figures that a comparison can decide on, by name; each is one number of one measurement."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from arriero.core.errors import ConfigError
from arriero.metrics.client_figures import ClientSummary, Distribution, LatencyTable, Rates

_NS_A_MS: Final = 1e6
DECIDES: Final = ("output_throughput",)
"""What decides unless something else is asked for."""
SHOWN: Final = ("output_throughput", "ttft_p50", "itl_p50", "itl_p99", "e2e_p50")
"""What is compared and printed beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareMetric:
    """One figure of one measurement.

    Attributes:
        name: on the command line and in files.
        unit: of its values.
        higher_is_better: rates yes, latencies no.
        read: takes it from a summary; None where it is undefined or infinite.
    """

    name: str
    unit: str
    higher_is_better: bool
    read: Callable[[ClientSummary], float | None]


def metric_of(name: str) -> CompareMetric:
    """The metric of a name: a rate, or a latency with its statistic, such as `itl_p99`.

    Raises:
        ConfigError: there is none.
    """
    if name in _RATES:
        read_rate, unit = _RATES[name]
        # Over the whole run with its drain: a closed loop stops when its last answer has ended.
        return CompareMetric(
            name=name, unit=unit, higher_is_better=True, read=lambda summary: read_rate(summary.whole_run)
        )
    match = _LATENCY.fullmatch(name)
    if match is None:
        raise ConfigError(
            f"{name}: no metric; use {', '.join(_RATES)}, or one of {', '.join(_TABLES)} with _ and one of "
            f"{', '.join(_STATISTICS)}, such as itl_p99"
        )
    read_table, statistic = _TABLES[match["latency"]], _STATISTICS[match["statistic"]]

    def read(summary: ClientSummary) -> float | None:
        samples = read_table(summary.latency.finished)
        value = None if samples is None else statistic(samples)
        return None if value is None else value / _NS_A_MS

    return CompareMetric(name=name, unit="ms", higher_is_better=False, read=read)


_RATES: Final[Mapping[str, tuple[Callable[[Rates], float | None], str]]] = MappingProxyType({
    "output_throughput": (lambda rates: rates.output_tokens_per_s, "tokens/s"),
    "prompt_throughput": (lambda rates: rates.prompt_tokens_per_s, "tokens/s"),
    "request_throughput": (lambda rates: rates.requests_per_s, "requests/s"),
})
_TABLES: Final[Mapping[str, Callable[[LatencyTable], Distribution | None]]] = MappingProxyType({
    "ttft": lambda table: table.ttft_ns,
    "itl": lambda table: table.itl_ns,
    "icl": lambda table: table.icl_ns,
    "itl_max": lambda table: table.itl_max_ns,
    "tpot": lambda table: table.tpot_ns,
    "e2e": lambda table: table.e2e_ns,
})
_STATISTICS: Final[Mapping[str, Callable[[Distribution], float | None]]] = MappingProxyType({
    "mean": lambda samples: samples.mean,
    "p50": lambda samples: samples.p50,
    "p90": lambda samples: samples.p90,
    "p95": lambda samples: samples.p95,
    "p99": lambda samples: samples.p99,
    "max": lambda samples: samples.max,
})
_LATENCY: Final = re.compile(rf"(?P<latency>{'|'.join(_TABLES)})_(?P<statistic>{'|'.join(_STATISTICS)})")
