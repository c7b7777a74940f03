"""What aiperf means by the words: ITL is one value a request, past the tokens of its first chunk."""

from types import MappingProxyType
from typing import Final

from arriero.metrics import client_latency as of
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.definitions_parts import Definitions, LagRule, PercentileRule, Samples, one
from arriero.metrics.definitions_shared import first_content, keeps_all, last_content, last_content_at, sent_at, span


def _itl(life: ClientLife) -> float | None:
    first, last = first_content(life), last_content(life)
    if first is None or last is None:
        return None
    later_tokens = of.num_tokens(life) - life.chunk_tokens[0]
    return (last - first) / later_tokens if later_tokens > 0 else None


def _is_good(life: ClientLife, slos: ClientSlos) -> bool | None:
    values = (first_content(life), slos.ttft_ns), (_itl(life), slos.tpot_ns), (last_content(life), slos.e2e_ns)
    return keeps_all(*values, missing=False)


AIPERF: Final = Definitions(
    name="aiperf",
    version="aiperf 0.13",
    rule=PercentileRule.LINEAR,
    latencies=MappingProxyType({
        "ttft_ns": lambda life: one(first_content(life)),
        "itl_ns": lambda life: one(_itl(life)),
        "icl_ns": lambda life: Samples(of.icl_samples(life)),
        "e2e_ns": lambda life: one(last_content(life)),
    }),
    span=span(sent_at, last_content_at, with_failures=False),
    ends_at=last_content_at,
    is_good=_is_good,
    has_failures=True,
    counts_partial=False,
    lag=LagRule.LEAST_LATE,
    words=MappingProxyType({
        "ttft_ns": "first response with content - actual send",
        "itl_ns": "(E2E - TTFT) / (tokens - tokens of the first chunk), one value a request",
        "icl_ns": "gaps between responses with content (its inter-chunk latency)",
        "e2e_ns": "last response with content - actual send",
        "goodput": "good requests per second; a missing value is a miss; it has no TPOT, its ITL is asked instead",
        "throughput": "first send to last response",
        "percentiles": "linear; a second set with failures as infinity by nearest rank",
    }),
)
