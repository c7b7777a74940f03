"""Moments and spans that several sets of definitions share.

A *content chunk* is what they call a chunk with text, a response with content or a chunk with tokens.
"""

from collections.abc import Callable, Sequence

from arriero.metrics.client_life import ClientLife
from arriero.metrics.definitions_parts import Span
from arriero.metrics.goodput import breaks
from arriero.metrics.window import Window


def since_send(life: ClientLife, at: int | None) -> int | None:
    """A moment counted from the actual send."""
    return None if at is None or life.sent_at is None else at - life.sent_at


def first_content(life: ClientLife) -> int | None:
    """First content chunk - actual send."""
    return since_send(life, next(iter(life.chunk_at), None))


def last_content(life: ClientLife) -> int | None:
    """Last content chunk - actual send."""
    return since_send(life, last_content_at(life))


def last_content_at(life: ClientLife) -> int | None:
    """Arrival of the last content chunk."""
    return life.chunk_at[-1] if life.chunk_at else None


def stream_end(life: ClientLife) -> int | None:
    """End of the stream - actual send."""
    return since_send(life, life.closed_at)


def measured_window(lives: Sequence[ClientLife], window: Window) -> Window:
    """Throughput between warm-up and cool-down."""
    del lives
    return window


def span(
    begin: Callable[[ClientLife], int | None], end: Callable[[ClientLife], int | None], *, with_failures: bool
) -> Span:
    """Throughput from the earliest begin to the latest end of all requests but warm-ups, of failed ones by choice."""

    def of(lives: Sequence[ClientLife], window: Window) -> Window:
        del window
        measured = [life for life in lives if not life.is_warm_up]
        ended = [life for life in measured if with_failures or life.outcome.is_normal]
        begins = [at for life in measured if (at := begin(life)) is not None]
        ends = [at for life in ended if (at := end(life)) is not None]
        return Window(min(begins, default=0), max(ends, default=0))

    return of


def sent_at(life: ClientLife) -> int | None:
    """The actual send."""
    return life.sent_at


def closed_at(life: ClientLife) -> int | None:
    """The end of the stream."""
    return life.closed_at


def keeps_all(*values: tuple[float | None, int | None], missing: bool | None) -> bool | None:
    """Whether each value keeps its bound; `missing` if one that has a bound is undefined and none is broken."""
    if any(breaks(value, bound) for value, bound in values):
        return False
    return missing if any(value is None and bound is not None for value, bound in values) else True
