"""arriero's own definitions: everything counts from the intended send, and failures are shown."""

from types import MappingProxyType
from typing import Final

from arriero.core.version import VERSION
from arriero.metrics import client_latency as of
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.definitions_parts import Definitions, LagRule, PercentileRule, Samples, one
from arriero.metrics.definitions_shared import closed_at, measured_window
from arriero.metrics.goodput import breaks


def broken_objectives(life: ClientLife, slos: ClientSlos) -> tuple[str, ...]:
    """The objectives that a request breaks, by their fields; an undefined latency breaks none."""
    values = {
        "ttft_ns": of.ttft(life),
        "tpot_ns": of.tpot(life),
        "e2e_ns": of.e2e(life),
        "largest_gap_ns": of.largest_gap(life) if slos.largest_gap_ns is not None else None,
    }
    return tuple(name for name, value in values.items() if breaks(value, getattr(slos, name)))


def _is_good(life: ClientLife, slos: ClientSlos) -> bool:
    return not broken_objectives(life, slos)


ARRIERO: Final = Definitions(
    name="arriero",
    version=VERSION,
    rule=PercentileRule.NEAREST_RANK,
    latencies=MappingProxyType({
        "ttft_ns": lambda life: one(of.ttft(life)),
        "service_ttft_ns": lambda life: one(of.service_ttft(life)),
        "itl_ns": lambda life: Samples(of.itl_samples(life)),
        "icl_ns": lambda life: Samples(of.icl_samples(life)),
        "itl_max_ns": lambda life: one(of.largest_gap(life)),
        "tpot_ns": lambda life: one(of.tpot(life)),
        "e2e_ns": lambda life: one(of.e2e(life)),
        "service_e2e_ns": lambda life: one(of.service_e2e(life)),
        "closing_ns": lambda life: one(of.closing_time(life)),
    }),
    span=measured_window,
    ends_at=closed_at,
    is_good=_is_good,
    has_failures=True,
    counts_partial=True,
    lag=LagRule.INTENDED,
    words=MappingProxyType({
        "ttft_ns": "first token - intended send (actual send in a closed loop)",
        "service_ttft_ns": "first token - actual send",
        "itl_ns": "gaps between tokens of all requests, pooled; 0 inside a chunk",
        "icl_ns": "gaps between content chunks of all requests, pooled",
        "itl_max_ns": "the worst gap between tokens of each request",
        "tpot_ns": "(last - first token) / (tokens - 1), one value a request; undefined below 2 tokens",
        "e2e_ns": "last token - intended send (actual send in a closed loop)",
        "service_e2e_ns": "last token - actual send",
        "closing_ns": "end of the stream - last token",
        "goodput": "ended normally within every objective that is set; an undefined latency breaks none",
        "throughput": "over the measured window; tokens count when they arrive, whatever becomes of their request",
        "percentiles": "nearest rank; a second table counts failures as infinity",
    }),
)
