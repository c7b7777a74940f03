"""Lives of requests in seconds, as a person would write them down, and the two answers that tell tools apart."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from arriero.metrics.client_life import ClientLife, Outcome


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def life(
    request_id: str = "r",
    *,
    intended: float | None = 0.0,
    sent: float | None = 0.0,
    chunks: Sequence[tuple[float, int]] = (),
    closed: float | None = None,
    outcome: Outcome = Outcome.LENGTH,
    **rest: Any,  # noqa: ANN401 - fields of ClientLife
) -> ClientLife:
    tokens = sum(tokens for _, tokens in chunks)
    values: dict[str, Any] = {"num_tokens": tokens, "asked_tokens": max(1, tokens), **rest}
    return ClientLife(
        request_id=request_id,
        intended_at=None if intended is None else ns(intended),
        sent_at=None if sent is None else ns(sent),
        closed_at=None if closed is None else ns(closed),
        outcome=outcome,
        chunk_at=tuple(ns(at) for at, _ in chunks),
        chunk_tokens=tuple(count for _, count in chunks),
        **values,
    )


def steady(
    request_id: str,
    at: float,
    *,
    wait: float = 0.1,
    gap: float = 0.02,
    tokens: int = 5,
    **rest: Any,  # noqa: ANN401 - same
) -> ClientLife:
    """Sent as intended, its first token after `wait`, closed with its last."""
    arrivals = [at + wait + index * gap for index in range(tokens)]
    values: dict[str, Any] = {"intended": at, "sent": at, "closed": arrivals[-1], **rest}
    return life(request_id, chunks=[(each, 1) for each in arrivals], **values)


def failed(
    request_id: str,
    at: float,
    outcome: Outcome = Outcome.ERROR,
    **rest: Any,  # noqa: ANN401 - same
) -> ClientLife:
    """Sent as intended, and ended without a token after 10 ms."""
    values: dict[str, Any] = {"intended": at, "sent": at, "closed": at + 0.01, "num_tokens": None, **rest}
    return life(request_id, outcome=outcome, **values)


def closed_loop(lives: Sequence[ClientLife]) -> list[ClientLife]:
    return [replace(each, intended_at=None) for each in lives]


X = life("X", chunks=[(1.0, 1), (1.1, 1), (1.2, 1), (1.3, 1)], closed=1.3)
"""One token a chunk, sent as intended."""

Y = life("Y", sent=0.05, chunks=[(1.05, 1), (1.25, 2), (1.35, 1)], closed=1.36)
"""Sent late, two tokens in one chunk, closed after its last token."""
