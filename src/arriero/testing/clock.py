"""ManualClock: time that moves when a test moves it."""

from arriero.core.ids import Time


class ManualClock:
    """A clock for `Engine(clock=...)`; reading it never moves it. Moving it is atomic, from any thread."""

    def __init__(self, now: Time = 0) -> None:
        """Start at `now`, in whole microseconds."""
        self._now = now

    def __call__(self) -> Time:
        """The time."""
        return self._now

    def advance(self, by_us: Time) -> None:
        """Let time pass."""
        assert by_us >= 0, "time never goes back"
        self._now += by_us
