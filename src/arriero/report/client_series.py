"""Series of a load generator's point: what happened over time at the client, from its raw lives.

Moments become microseconds from the point's own origin, as everywhere in figures. Nothing is dropped in silence: more
requests than dots become equal bins by arrival, each with its median and its highest value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from arriero.metrics.client_figures import ClientSummary
from arriero.metrics.client_latency import first_at, send_lag, token_at, ttft
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.client_summary_latency import POOLED
from arriero.metrics.client_window import ClientWindow
from arriero.metrics.definitions import ARRIERO
from arriero.metrics.quantiles import nearest_rank
from arriero.report.columns import Floats, Whole
from arriero.report.series import FULL, Cdf, Detail, Stretches, cdf, count_over_time

MAX_DOTS: Final = 400
NUM_BINS: Final = 160
_NS: Final = 1_000.0  # in a microsecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Dots:
    """One value for each request, by its arrival.

    Attributes:
        at: float64[n], microseconds; of a bin its middle.
        values: float64[n], microseconds; of a bin its median.
        highest: float64[n], of each bin; None where every request is a dot.
        num_requests: that have a value.
        failed_at: float64[m], arrivals of requests that have none because they failed; of many, the middles of their
            bins.
        num_failed: how many these are.
    """

    at: Floats
    values: Floats
    highest: Floats | None
    num_requests: int
    failed_at: Floats
    num_failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimeline:
    """What the client saw over time.

    Attributes:
        span: from the origin to the last moment, microseconds.
        window: the measured part.
        in_flight: requests between send and end.
        unanswered: of these, before their first token.
        tokens_per_s: arrivals of tokens in equal bins.
        ttft: from the intended send in open loop.
        send_lag: None in a closed loop.
    """

    span: tuple[float, float]
    window: tuple[float, float]
    in_flight: Stretches
    unanswered: Stretches
    tokens_per_s: Stretches
    ttft: Dots
    send_lag: Dots | None


def client_timeline(
    lives: Sequence[ClientLife], summary: ClientSummary, detail: Detail = FULL
) -> ClientTimeline | None:
    """Curves over time of one point; None if nothing was sent."""
    sent = [life for life in lives if life.sent_at is not None]
    if not sent:
        return None
    ends = [at for life in sent for at in (life.closed_at, life.sent_at) if at is not None]
    span = (0.0, max(ends) / _NS)
    begins, closed = _moments(sent, lambda life: life.sent_at), _moments(sent, lambda life: life.closed_at)
    firsts = _moments(sent, first_at)
    lags = _dots(lives, send_lag, span)
    return ClientTimeline(
        span=span,
        window=(summary.window.begins_at / _NS, summary.window.ends_at / _NS),
        in_flight=count_over_time(begins, closed, span, detail),
        unanswered=count_over_time(begins, np.where(np.isnan(firsts), closed, firsts), span, detail),
        tokens_per_s=_token_rate(sent, span),
        ttft=_dots(lives, ttft, span),
        send_lag=lags if lags.num_requests else None,
    )


def latency_cdf(lives: Sequence[ClientLife], name: str, detail: Detail = FULL) -> Cdf | None:
    """The distribution of one latency under arriero's definitions, as in the tables of all requests.

    A request that failed counts as larger than every sample; of gaps, those that it did show count, too. Cancellations
    that the client planned are left out.

    Args:
        lives: those that count.
        name: a field of `LatencyTable`.
        detail: how much is drawn.
    """
    values: list[float] = []
    num_failed = 0
    for life in lives:
        if life.outcome is Outcome.CANCELLED_BY_CLIENT:
            continue
        if life.outcome.is_normal or name in POOLED:
            values.extend(ARRIERO.samples(name, life).values)
        num_failed += not life.outcome.is_normal
    return cdf(np.array(values, dtype=np.float64) / _NS, num_censored=num_failed, detail=detail)


def in_window(lives: Sequence[ClientLife], summary: ClientSummary) -> list[ClientLife]:
    """The lives that latencies and attainment of a summary cover."""
    window = window_of(summary)
    return [life for life in lives if window.holds(life) and window.was_due(life)]


def window_of(summary: ClientSummary) -> ClientWindow:
    """The window that a summary was made over."""
    return ClientWindow(
        starts_at=summary.window.begins_at - summary.warm_up_ns,
        stops_at=summary.window.ends_at + summary.cool_down_ns,
        warm_up_ns=summary.warm_up_ns,
        cool_down_ns=summary.cool_down_ns,
    )


def _moments(lives: Sequence[ClientLife], of: Callable[[ClientLife], int | None]) -> Floats:
    found = [at / _NS if (at := of(life)) is not None else np.nan for life in lives]
    return np.array(found, dtype=np.float64)


def _token_rate(lives: Sequence[ClientLife], span: tuple[float, float]) -> Stretches:
    edges = np.linspace(span[0], max(span[1], 1.0), NUM_BINS + 1)
    at = np.array([moment for life in lives for moment in token_at(life)], dtype=np.float64) / _NS
    counts, _ = np.histogram(at, edges)
    return Stretches(edges=edges, values=counts / np.diff(edges) * 1e6, peaks=None, num_drawn_from=len(at))


def _dots(lives: Sequence[ClientLife], of: Callable[[ClientLife], int | None], span: tuple[float, float]) -> Dots:
    arrived = [life for life in lives if life.arrival_at is not None and not life.is_warm_up]
    at, values = _moments(arrived, lambda life: life.arrival_at), _moments(arrived, of)
    has_failed = np.array([_has_failed(life) for life in arrived], dtype=np.bool_)
    is_known = ~np.isnan(values)
    failed_at = at[has_failed & ~is_known]
    at, values = at[is_known], values[is_known]
    highest: Floats | None = None
    num_requests, num_failed = len(at), len(failed_at)
    if num_requests > MAX_DOTS:
        bins = _bins(at, span)
        kept = np.unique(bins)
        groups = [values[bins == number] for number in kept]
        at = _middles(span)[kept]
        values = np.array([nearest_rank(sorted(group.tolist()), 0.5) for group in groups])
        highest = np.array([group.max() for group in groups])
    if num_failed > MAX_DOTS:
        failed_at = _middles(span)[np.unique(_bins(failed_at, span))]
    return Dots(
        at=at,
        values=values,
        highest=highest,
        num_requests=num_requests,
        failed_at=failed_at,
        num_failed=num_failed,
    )


def _bins(at: Floats, span: tuple[float, float]) -> Whole:
    """int64[n]: in which of `NUM_BINS` equal bins of the span each moment lies."""
    edges = np.linspace(*span, NUM_BINS + 1)
    found: Whole = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, NUM_BINS - 1)
    return found


def _middles(span: tuple[float, float]) -> Floats:
    edges = np.linspace(*span, NUM_BINS + 1)
    middles: Floats = (edges[:-1] + edges[1:]) / 2
    return middles


def _has_failed(life: ClientLife) -> bool:
    return not life.outcome.is_normal and life.outcome is not Outcome.CANCELLED_BY_CLIENT
