"""The `/metrics` page: tables of names over one tally, in the Prometheus text format."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

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

Derived = Callable[[Metrics], float]

DERIVED: Final[Mapping[str, Derived]] = MappingProxyType({
    "step_age": lambda metrics: metrics.step_age_s,
    "waiting_by_reason": lambda metrics: metrics.tally.count("waiting"),
    "preemptions_all": lambda metrics: metrics.tally.count("preemptions", "recompute"),
    "prompt_tokens_by_source": lambda metrics: metrics.tally.count("prompt_tokens"),
    "admission_rejections": lambda metrics: metrics.tally.count("rejected", "backlog"),
    "busy_per_call": lambda metrics: metrics.tally.count("busy_slots") / max(1.0, metrics.tally.count("decode_calls")),
})
"""Figures that are computed when they are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """What the page shows beside the tally.

    Attributes:
        info: labels of `arriero_build_info`: version, llama_cpp, model, kv_layout.
        settings: gauges that never change, such as `arriero_threads`, by name.
        vllm, llamacpp: whether these name sets are shown.
    """

    model: str
    info: Mapping[str, str]
    settings: Mapping[str, float]
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
            count = self._metrics.tally.count(shown.source, *labels) if derived is None else derived(self._metrics)
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
    """What does not change while the server runs."""

    def __init__(self, options: PageOptions) -> None:
        self._options = options

    def collect(self) -> Iterable[Metric]:
        info = self._options.info
        family = GaugeMetricFamily("arriero_build_info", "What runs here; always 1.", labels=list(info))
        family.add_metric(list(info.values()), 1)
        yield family
        for name, value in self._options.settings.items():
            yield GaugeMetricFamily(name, "As configured.", value=value)


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
