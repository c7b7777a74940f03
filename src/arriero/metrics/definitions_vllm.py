"""What `vllm bench serve` means by the words: chunks with `choices` stand for tokens, also empty ones."""

from itertools import pairwise
from types import MappingProxyType
from typing import Final

from arriero.metrics import client_latency as of
from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.definitions_parts import Definitions, LagRule, PercentileRule, Samples, one
from arriero.metrics.definitions_shared import since_send, span
from arriero.metrics.goodput import breaks


def _with_choices(life: ClientLife) -> list[int]:
    return sorted((*life.chunk_at, *life.empty_at))


def _last_with_choices_at(life: ClientLife) -> int | None:
    return max(_with_choices(life), default=None)


def _ttft(life: ClientLife) -> int | None:
    return since_send(life, min(_with_choices(life), default=None))


def _e2e(life: ClientLife) -> int | None:
    return since_send(life, _last_with_choices_at(life))


def _itl(life: ClientLife) -> Samples:
    return Samples([later - earlier for earlier, later in pairwise(_with_choices(life))])


def _tpot(life: ClientLife) -> float | None:
    first, last, tokens = _ttft(life), _e2e(life), of.num_tokens(life)
    return None if first is None or last is None or tokens < 2 else (last - first) / (tokens - 1)


def _is_good(life: ClientLife, slos: ClientSlos) -> bool:
    tpot = _tpot(life) or 0.0  # an answer of one token counts as 0 and passes any objective
    return not (breaks(_ttft(life), slos.ttft_ns) or breaks(tpot, slos.tpot_ns) or breaks(_e2e(life), slos.e2e_ns))


VLLM: Final = Definitions(
    name="vllm",
    version="vLLM bench 0.32",
    rule=PercentileRule.LINEAR,
    latencies=MappingProxyType({
        "ttft_ns": lambda life: one(_ttft(life)),
        "itl_ns": _itl,
        "tpot_ns": lambda life: one(_tpot(life)),
        "e2e_ns": lambda life: one(_e2e(life)),
    }),
    span=span(lambda life: life.arrival_at, _last_with_choices_at, with_failures=False),
    ends_at=_last_with_choices_at,
    is_good=_is_good,
    has_failures=False,
    counts_partial=False,
    lag=LagRule.NONE,  # it shows the wait for its own limit of concurrency, which this generator does not have
    words=MappingProxyType({
        "ttft_ns": "first chunk with `choices`, even an empty one, - actual send",
        "itl_ns": "gaps between chunks with `choices`, pooled",
        "tpot_ns": "(E2E - TTFT) / (tokens - 1), one value a request",
        "e2e_ns": "last chunk with `choices` - actual send",
        "goodput": "requests per second within TTFT, TPOT and E2E; TPOT of one token counts as 0",
        "throughput": "from the start of sending to the last answer, drain included; successes only",
        "percentiles": "linear; successes only",
    }),
)
