"""What guidellm means by the words: one value a request, weighted by tokens; TPOT includes the first token's wait."""

from types import MappingProxyType
from typing import Final

from arriero.metrics import client_latency as of
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.definitions_parts import UNDEFINED, Definitions, LagRule, PercentileRule, Samples, one
from arriero.metrics.definitions_shared import (
    closed_at,
    first_content,
    keeps_all,
    last_content,
    measured_window,
    stream_end,
)


def _content_span(life: ClientLife) -> int | None:
    """Last - first chunk with text."""
    return life.chunk_at[-1] - life.chunk_at[0] if life.chunk_at else None


def _itl(life: ClientLife) -> Samples:
    tokens, length = of.num_tokens(life), _content_span(life)
    return UNDEFINED if tokens < 2 or length is None else one(length / (tokens - 1), tokens - 1)


def _tpot(life: ClientLife) -> Samples:
    tokens, last = of.num_tokens(life), last_content(life)
    return UNDEFINED if tokens < 1 or last is None else one(last / tokens, tokens)


def _is_good(life: ClientLife, slos: ClientSlos) -> bool | None:
    itl = next(iter(_itl(life).values), None)  # its objective "tpot" tests its ITL
    return keeps_all(
        (first_content(life), slos.ttft_ns), (itl, slos.tpot_ns), (stream_end(life), slos.e2e_ns), missing=None
    )


GUIDELLM: Final = Definitions(
    name="guidellm",
    version="guidellm 0.8.1",
    rule=PercentileRule.NEAREST_RANK,
    latencies=MappingProxyType({
        "ttft_ns": lambda life: one(first_content(life)),
        "itl_ns": _itl,
        "tpot_ns": _tpot,
        "e2e_ns": lambda life: one(stream_end(life)),
        "targeted_ns": lambda life: one(
            None if life.closed_at is None or life.intended_at is None else life.closed_at - life.intended_at
        ),
    }),
    span=measured_window,
    ends_at=closed_at,
    is_good=_is_good,
    has_failures=False,
    counts_partial=False,
    lag=LagRule.INTENDED,
    words=MappingProxyType({
        "ttft_ns": "first chunk with text - actual send",
        "itl_ns": "(last - first chunk with text) / (tokens - 1), one value a request, weighted by tokens - 1",
        "tpot_ns": "(last chunk with text - actual send) / tokens, one value a request, weighted by tokens",
        "e2e_ns": "end of the stream - actual send",
        "targeted_ns": "end of the stream - intended send",
        "goodput": "share and rate; errors are misses, undetermined ones are left out; objective TPOT tests ITL",
        "throughput": "between warm-up and cool-down",
        "percentiles": "nearest rank, ITL and TPOT weighted by tokens",
    }),
)
