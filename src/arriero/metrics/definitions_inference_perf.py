"""What inference-perf means by the words: pooled gaps between tokens, ends of streams, no TTFT for a single token."""

from types import MappingProxyType
from typing import Final

from arriero.metrics import client_latency as of
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.definitions_parts import Definitions, LagRule, PercentileRule, Samples, one
from arriero.metrics.definitions_shared import closed_at, keeps_all, sent_at, span, stream_end


def _ttft(life: ClientLife) -> int | None:
    return None if of.num_tokens(life) == 1 else of.service_ttft(life)


def _normalised(life: ClientLife) -> float | None:
    end, tokens = stream_end(life), of.num_tokens(life)
    return None if end is None or not tokens else end / tokens


def _is_good(life: ClientLife, slos: ClientSlos) -> bool | None:
    values = (_ttft(life), slos.ttft_ns), (of.tpot(life), slos.tpot_ns), (stream_end(life), slos.e2e_ns)
    return keeps_all(*values, missing=False)


INFERENCE_PERF: Final = Definitions(
    name="inference-perf",
    version="inference-perf 0.7",
    rule=PercentileRule.LINEAR,
    latencies=MappingProxyType({
        "ttft_ns": lambda life: one(_ttft(life)),
        "itl_ns": lambda life: Samples(of.itl_samples(life)),
        "tpot_ns": lambda life: one(of.tpot(life)),
        "normalised_ns": lambda life: one(_normalised(life)),
        "e2e_ns": lambda life: one(stream_end(life)),
    }),
    span=span(sent_at, closed_at, with_failures=True),
    ends_at=closed_at,
    is_good=_is_good,
    has_failures=False,
    counts_partial=False,
    lag=LagRule.INTENDED,
    words=MappingProxyType({
        "ttft_ns": "first chunk with tokens - actual send; none for an answer of one token",
        "itl_ns": "gaps between arrivals of tokens, pooled; 0 inside a chunk",
        "tpot_ns": "(last - first) / (tokens - 1), one value a request",
        "normalised_ns": "E2E / tokens, one value a request",
        "e2e_ns": "end of the stream - actual send",
        "goodput": "requests and tokens per second, and share of the successful; a missing value is a miss",
        "throughput": "first send to last end, failures included",
        "percentiles": "linear",
    }),
)
