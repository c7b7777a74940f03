"""The `/metrics` page: tables of names over one tally, in the Prometheus text format."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from arriero.http.metric_names import LLAMACPP, NATIVE, VLLM, Kind, Shown
from arriero.http.metrics import Metrics

Derived = Callable[[Metrics, tuple[str, ...]], float]

_VLLM_REASONS: Final = MappingProxyType({"capacity": "capacity", "deferred": "prefix"})
_VLLM_SOURCES: Final = MappingProxyType({"local_compute": "computed_tokens", "local_cache_hit": "prefix_hit_tokens"})
_VLLM_REJECTIONS: Final = MappingProxyType({
    "max_num_queued_reqs": "backlog",
    "max_num_queued_tokens": "backlog_tokens",
})

DERIVED: Final[Mapping[str, Derived]] = MappingProxyType({
    "step_age": lambda metrics, _: metrics.step_age_s,
    "waiting_as_vllm": lambda metrics, labels: metrics.tally.count("waiting_by_reason", _VLLM_REASONS[labels[0]]),
    "preemptions_all": lambda metrics, _: sum(metrics.tally.count("preemptions", way) for way in ("recompute", "swap")),
    "prompt_tokens_by_source": lambda metrics, labels: metrics.tally.count(_VLLM_SOURCES[labels[0]]),
    "admission_rejections": lambda metrics, labels: metrics.tally.count("rejected", _VLLM_REJECTIONS[labels[0]]),
    "busy_per_call": lambda metrics, _: (
        metrics.tally.count("busy_slots") / max(1.0, metrics.tally.count("decode_calls"))
    ),
})
"""Figures that are computed when they are read, from the tally and the values of their labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """What the page shows beside the tally.

    Attributes:
        info: labels of `arriero_build_info`: version, llama_cpp, model, kv_layout.
        settings: gauges that never change, such as `arriero_prefill_budget_rows`, by name.
        gauges: gauges that somebody else keeps, by name: one line about each, and what reads it without waiting.
        vllm, llamacpp: whether these name sets are shown.
    """

    model: str
    info: Mapping[str, str]
    settings: Mapping[str, float]
    gauges: Mapping[str, tuple[str, Callable[[], float]]] = field(default_factory=dict[str, Any])
    vllm: bool = True
    llamacpp: bool = True


class _Set(Collector):
    """One name set, with labels that all of its metrics have."""

    def __init__(self, metrics: Metrics, table: tuple[Shown, ...], common: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._table = table
        self._common = common

    def collect(self) -> Iterable[Metric]:
        for shown in self._table:
            names = (*self._common, *shown.labels)
            family = _FAMILIES[shown.kind](shown.name, shown.help, labels=names)
            for labels in shown.label_sets():
                self._add(family, shown, labels, [*self._common.values(), *labels])
            yield family

    def _add(self, family: Metric, shown: Shown, labels: tuple[str, ...], values: list[str]) -> None:
        if isinstance(family, HistogramMetricFamily):
            found = self._metrics.tally.distribution(shown.source, *labels, bounds=shown.bounds)
            buckets = [(_bound_text(bound), float(count)) for bound, count in found.buckets]
            family.add_metric(values, buckets, found.sum)
        elif isinstance(family, CounterMetricFamily | GaugeMetricFamily):
            derived = DERIVED.get(shown.source)
            tally = self._metrics.tally
            count = tally.count(shown.source, *labels) if derived is None else derived(self._metrics, labels)
            family.add_metric(values, count)


def _bound_text(bound: float) -> str:
    return "+Inf" if bound == math.inf else repr(float(bound))


_FAMILIES: Final = MappingProxyType({
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
})


_COUNTER_WITHOUT_TOTAL: Final = (b"# TYPE llamacpp:n_tokens_max gauge", b"# TYPE llamacpp:n_tokens_max counter")
"""That server calls this one a counter without the ending that counters have here."""


class _Settings(Collector):
    """What the tally does not hold: settings, and gauges of others."""

    def __init__(self, options: PageOptions) -> None:
        self._options = options

    def collect(self) -> Iterable[Metric]:
        info = self._options.info
        family = GaugeMetricFamily("arriero_build_info", "What runs here; always 1.", labels=list(info))
        family.add_metric(list(info.values()), 1)
        yield family
        for name, value in self._options.settings.items():
            yield GaugeMetricFamily(name, "As configured.", value=value)
        for name, (says, read) in self._options.gauges.items():
            yield GaugeMetricFamily(name, says, value=read())


class MetricsPage:
    """The page of one server, with a registry of its own."""

    content_type: Final = b"text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, metrics: Metrics, options: PageOptions) -> None:
        """Register the sets that are shown."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Set(metrics, NATIVE, {}))
        self._registry.register(_Settings(options))
        if options.vllm:
            self._registry.register(_Set(metrics, VLLM, {"model_name": options.model, "engine": "0"}))
        if options.llamacpp:
            self._registry.register(_Set(metrics, LLAMACPP, {}))

    def render(self) -> bytes:
        """The text; takes well under a millisecond for each hundred series, and waits for nobody."""
        return generate_latest(self._registry).replace(*_COUNTER_WITHOUT_TOTAL)
