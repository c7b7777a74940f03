"""RunWatch: how far a run has come, for whoever shows it."""

from arriero.metrics.client_life import ClientLife, Outcome


class RunWatch:
    """Counts while a run goes on; reading it costs nothing.

    Attributes:
        planned: requests of the schedule.
        sent: asked so far, those that ended included.
        ended: of these; `failed` of them neither ended normally nor were cancelled on purpose.
        unsent: will never be sent.
        lag_ns: how late the last send was; `worst_lag_ns` the latest of all.
    """

    def __init__(self) -> None:
        """Nothing has begun."""
        self.planned = 0
        self.began_at: int | None = None
        self.sent = 0
        self.ended = 0
        self.failed = 0
        self.unsent = 0
        self.lag_ns = 0
        self.worst_lag_ns = 0

    @property
    def running(self) -> int:
        """Sent and not ended."""
        return self.sent - self.ended

    def begin(self, planned: int, now: int) -> None:
        """A run begins; counts start again."""
        self.planned, self.began_at = planned, now
        self.sent = self.ended = self.failed = self.unsent = 0
        self.lag_ns = self.worst_lag_ns = 0

    def note_sent(self, lag_ns: int) -> None:
        """A request is being sent."""
        self.sent += 1
        self.lag_ns = lag_ns
        self.worst_lag_ns = max(self.worst_lag_ns, lag_ns)

    def note_end(self, life: ClientLife) -> None:
        """A request has ended, or will never be sent."""
        if life.outcome is Outcome.NOT_SENT:
            self.unsent += 1
            return
        self.ended += 1
        if not life.outcome.is_normal and life.outcome is not Outcome.CANCELLED_BY_CLIENT:
            self.failed += 1
