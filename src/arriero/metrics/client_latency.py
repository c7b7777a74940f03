"""Formulas over the moments of one request as its client saw them.

The same formulas as in `latency.py`, which are called here, over a `ClientLife`. Whole nanoseconds; undefined is None,
never 0. Where the server's own count of tokens and the sum over the chunks differ, TPOT divides by the server's count
and everything else goes by the moments that were seen; `sums_differ` marks such a life.
"""

from collections.abc import Sequence
from operator import sub

from arriero.metrics import latency
from arriero.metrics.client_life import ClientLife


def num_tokens(life: ClientLife) -> int:
    """The server's count of output tokens; the sum over the chunks where it gave none."""
    return sum(life.chunk_tokens) if life.num_tokens is None else life.num_tokens


def sums_differ(life: ClientLife) -> bool:
    """Whether the server's count is another than the sum over the chunks."""
    return life.num_tokens is not None and life.num_tokens != sum(life.chunk_tokens)


def token_at(life: ClientLife) -> list[int]:
    """Arrival of every token: the moment of the chunk that carries it; ascending."""
    if life.chunk_tokens.count(1) == len(life.chunk_at):
        return list(life.chunk_at)
    return [at for at, tokens in zip(life.chunk_at, life.chunk_tokens, strict=True) for _ in range(tokens)]


def first_at(life: ClientLife) -> int | None:
    """Arrival of the first token; None without one."""
    if life.chunk_tokens and life.chunk_tokens[0]:
        return life.chunk_at[0]
    return next((at for at, tokens in zip(life.chunk_at, life.chunk_tokens, strict=True) if tokens), None)


def last_at(life: ClientLife) -> int | None:
    """Arrival of the last token; None without one."""
    if life.chunk_tokens and life.chunk_tokens[-1]:
        return life.chunk_at[-1]
    both = zip(reversed(life.chunk_at), reversed(life.chunk_tokens), strict=True)
    return next((at for at, tokens in both if tokens), None)


def ttft(life: ClientLife) -> int | None:
    """First token - arrival, which is the intended send in open loop and the actual one in closed loop."""
    return _difference(first_at(life), life.arrival_at)


def service_ttft(life: ClientLife) -> int | None:
    """First token - actual send."""
    return _difference(first_at(life), life.sent_at)


def itl_samples(life: ClientLife) -> list[int]:
    """Gaps between tokens, 0 between those of one chunk; empty below two tokens."""
    return _gaps(token_at(life))


def icl_samples(life: ClientLife) -> list[int]:
    """Gaps between content chunks; empty below two of them."""
    return _gaps(life.chunk_at)


def largest_gap(life: ClientLife) -> int | None:
    """The largest gap between two tokens; None below two tokens."""
    return max(itl_samples(life), default=None)


def tpot(life: ClientLife) -> float | None:
    """(last - first token) / (tokens - 1); None below two tokens."""
    return latency.tpot(first_at(life), last_at(life), num_tokens(life))


def ended_at(life: ClientLife) -> int | None:
    """The last token, or the terminal event of an answer without any."""
    last = last_at(life)
    return life.closed_at if last is None else last


def e2e(life: ClientLife) -> int | None:
    """Last token - arrival, or the terminal event - arrival without tokens; None only if it never ended or was sent."""
    return None if life.sent_at is None else _difference(ended_at(life), life.arrival_at)


def service_e2e(life: ClientLife) -> int | None:
    """Last token - actual send, or the terminal event - actual send without tokens."""
    return _difference(ended_at(life), life.sent_at)


def closing_time(life: ClientLife) -> int | None:
    """Terminal event - last token; None without a token."""
    return _difference(life.closed_at, last_at(life))


def send_lag(life: ClientLife) -> int | None:
    """Actual - intended send; None in a closed loop, and for a request that was never sent."""
    return _difference(life.sent_at, life.intended_at)


def _gaps(ascending: Sequence[int]) -> list[int]:
    return list(map(sub, ascending[1:], ascending))


def _difference(later: int | None, earlier: int | None) -> int | None:
    return None if later is None or earlier is None else later - earlier
