"""The measured part of a client's run, and the whole of it; whole nanoseconds of the client's clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.window import Window, measured_window


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWindow:
    """[start of arrivals + warm-up, stop of arrivals - cool-down].

    Attributes:
        starts_at: when arrivals begin.
        stops_at: when they end, also because the run was interrupted; what was intended later was never due.
        warm_up_ns: not measured at the beginning, may be 0.
        cool_down_ns: not measured at the end, may be 0.
    """

    starts_at: int
    stops_at: int
    warm_up_ns: int = 0
    cool_down_ns: int = 0

    @property
    def measured(self) -> Window:
        """The two ends; may be empty."""
        return measured_window(self.starts_at, self.stops_at, self.warm_up_ns, self.cool_down_ns)

    def holds(self, life: ClientLife) -> bool:
        """Whether the request arrived in the measured part; a warm-up request never did."""
        return not life.is_warm_up and self.measured.holds(life.arrival_at)

    def was_due(self, life: ClientLife) -> bool:
        """Whether it should have been sent: all that were, and of an open loop those intended before the stop."""
        if life.outcome is not Outcome.NOT_SENT:
            return True
        return life.intended_at is not None and life.intended_at <= self.stops_at


def client_window(
    lives: Iterable[ClientLife],
    *,
    starts_at: int | None = None,
    stops_at: int | None = None,
    warm_up_ns: int = 0,
    cool_down_ns: int = 0,
) -> ClientWindow:
    """The window over these requests; warm-up requests do not count.

    Args:
        lives: of one run.
        starts_at: when the schedule's arrivals begin; None takes the first arrival.
        stops_at: when they end or were stopped; None takes the last arrival. A rate of N arrivals between the first
            and the last is a little high, by one in N, so give the schedule's own ends where there are any.
        warm_up_ns: to leave out at the beginning.
        cool_down_ns: to leave out at the end.
    """
    arrivals = [life.arrival_at for life in lives if not life.is_warm_up and life.arrival_at is not None]
    return ClientWindow(
        starts_at=min(arrivals, default=0) if starts_at is None else starts_at,
        stops_at=max(arrivals, default=0) if stops_at is None else stops_at,
        warm_up_ns=warm_up_ns,
        cool_down_ns=cool_down_ns,
    )


def whole_run(lives: Sequence[ClientLife]) -> Window:
    """From the first arrival to the last terminal event, the drain included; warm-up requests do not count."""
    measured = [life for life in lives if not life.is_warm_up]
    begins = [life.arrival_at for life in measured if life.arrival_at is not None]
    ends = [life.closed_at for life in measured if life.closed_at is not None]
    return Window(min(begins, default=0), max(ends, default=0))


def counted_from(life: ClientLife, origin: int) -> ClientLife:
    """The same request with its moments counted from another origin; durations stay."""
    return replace(
        life,
        intended_at=_less(life.intended_at, origin),
        sent_at=_less(life.sent_at, origin),
        headers_at=_less(life.headers_at, origin),
        chunk_at=tuple(at - origin for at in life.chunk_at),
        empty_at=tuple(at - origin for at in life.empty_at),
        closed_at=_less(life.closed_at, origin),
    )


def _less(at: int | None, origin: int) -> int | None:
    return None if at is None else at - origin
