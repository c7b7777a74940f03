"""What llmperf means by the words: its inter-token latency includes the wait for the first token."""

from types import MappingProxyType
from typing import Final

from arriero.metrics.client_life import ClientLife
from arriero.metrics.definitions_parts import Definitions, LagRule, PercentileRule, one
from arriero.metrics.definitions_shared import closed_at, first_content, last_content, sent_at, span, stream_end


def _itl(life: ClientLife) -> float | None:
    """TTFT and all gaps add up to the time from the send to the last chunk with text."""
    last, events = last_content(life), len(life.chunk_at) + len(life.empty_at)
    return None if last is None else last / events


LLMPERF: Final = Definitions(
    name="llmperf",
    version="llmperf of December 2024",
    rule=PercentileRule.LINEAR,
    latencies=MappingProxyType({
        "ttft_ns": lambda life: one(first_content(life)),
        "itl_ns": lambda life: one(_itl(life)),
        "e2e_ns": lambda life: one(stream_end(life)),
    }),
    span=span(sent_at, closed_at, with_failures=True),
    ends_at=closed_at,
    is_good=None,
    has_failures=False,
    counts_partial=False,
    lag=LagRule.NONE,
    words=MappingProxyType({
        "ttft_ns": "first chunk with text - actual send",
        "itl_ns": "(TTFT + all gaps) / number of stream events, one value a request",
        "e2e_ns": "end of the stream - actual send",
        "throughput": "whole run",
        "percentiles": "linear",
    }),
)
