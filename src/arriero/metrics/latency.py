"""Moments of one request, and the only formulas of queue time, TTFT, TPOT, E2E and ITL.

Times stand on one line of whole microseconds or of float milliseconds; results are in its unit. Undefined is None,
never 0.
"""

from collections.abc import Sequence
from operator import sub
from typing import NamedTuple

from arriero.core.ids import Time


class Life(NamedTuple):
    """The moments of one request; None for what never came."""

    arrival_at: Time
    started_at: Time | None  # begin of the first step that computes a row for it
    first_at: Time | None  # its first token
    finished_at: Time | None  # a normal end, which is the moment of its last token if there is one
    num_tokens: int  # generated so far

    @property
    def queue_time(self) -> Time | None:
        """First start - arrival."""
        return queue_time(self.arrival_at, self.started_at)

    @property
    def ttft(self) -> Time | None:
        """First token - arrival."""
        return ttft(self.arrival_at, self.first_at)

    @property
    def tpot(self) -> float | None:
        """(last - first token) / (tokens - 1)."""
        return tpot(self.first_at, self.finished_at, self.num_tokens)

    @property
    def e2e(self) -> Time | None:
        """Last token - arrival."""
        return e2e(self.arrival_at, self.finished_at)


def queue_time(arrival_at: Time, started_at: Time | None) -> Time | None:
    """First start - arrival; None if it never started."""
    return None if started_at is None else started_at - arrival_at


def ttft(arrival_at: Time, first_at: Time | None) -> Time | None:
    """First token - arrival; None without a token."""
    return None if first_at is None else first_at - arrival_at


def tpot(first_at: Time | None, last_at: Time | None, num_tokens: int) -> float | None:
    """(last - first token) / (tokens - 1); None below two tokens or without an end."""
    if first_at is None or last_at is None or num_tokens < 2:
        return None
    return (last_at - first_at) / (num_tokens - 1)


def e2e(arrival_at: Time, finished_at: Time | None) -> Time | None:
    """End - arrival; None if it has not ended normally."""
    return None if finished_at is None else finished_at - arrival_at


def gaps(token_at: Sequence[Time]) -> list[Time]:
    """ITL samples: the difference between each token and the one before."""
    return list(map(sub, token_at[1:], token_at))
