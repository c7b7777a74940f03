"""PooledRequest: one request of a context pool, whose end is set once, by whoever comes first."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from arriero.core.ids import RequestId, TokenId
from arriero.core.request import Request
from arriero.engine.open_requests import fold_hash


class PoolOutcome(StrEnum):
    """How a request ended."""

    OK = "ok"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLife:
    """One request that has ended; moments are whole nanoseconds of one monotonic clock.

    Attributes:
        number: of the request, from 0.
        budget: tokens that it asked for.
        error: a word for the kind of failure, or None.
        tokens: what it said before its end was set.
        asked_at: its client wanted it.
        started_at: it got its context or slot; None if it never did.
        first_at: its first token was there.
        ended_at: its end was set.
        context: which context it ran on; None if it never did.
        decode_calls: made for it alone; None where others were computed in the same calls.
    """

    number: int
    budget: int
    outcome: PoolOutcome
    error: str | None
    tokens: tuple[TokenId, ...]
    asked_at: int
    started_at: int | None
    first_at: int | None
    ended_at: int
    context: int | None
    decode_calls: int | None

    @property
    def token_hash(self) -> int:
        """As the engine hashes its answers; 0 without tokens."""
        value = 0
        for token in self.tokens:
            value = fold_hash(value, token)
        return value


class PooledRequest:
    """The mutable half: tokens are said by whoever runs it, and its end is set by compare-and-set from any thread.

    Attributes:
        request: what is asked.
        tokens: said so far.
        decode_calls: made so far.
    """

    def __init__(self, request: Request, budget: int, clock: Callable[[], int], wake: Callable[[], None]) -> None:
        """It has been asked now.

        Args:
            request: with the number as its id; its `max_tokens` is 1 for a budget of 0.
            budget: tokens asked for.
            clock: whole nanoseconds.
            wake: wakes whoever drives it.
        """
        self.request = request
        self.tokens: list[TokenId] = []
        self.decode_calls = 0
        self.wake = wake
        self._budget = budget
        self._clock = clock
        self._asked_at = clock()
        self._started: tuple[int, int] | None = None  # when, and on which context
        self._first_at: int | None = None
        self._lock = threading.Lock()
        self._end: PoolLife | None = None

    @property
    def number(self) -> RequestId:
        """Its number."""
        return self.request.request_id

    @property
    def budget(self) -> int:
        """Tokens that it asked for."""
        return self._budget

    @property
    def end(self) -> PoolLife | None:
        """How it ended, or None as long as it has not."""
        return self._end

    def start(self, context: int) -> None:
        """It got its context; does nothing after the end."""
        with self._lock:
            if self._end is None:
                self._started = (self._clock(), context)

    def say(self, token: TokenId) -> None:
        """Its next token is there; one that comes after the end is dropped."""
        with self._lock:
            if self._end is not None:
                return
            if self._first_at is None:
                self._first_at = self._clock()
            self.tokens.append(token)

    def settle(self, outcome: PoolOutcome, error: str | None = None) -> bool:
        """Set the end, unless it is set already; whether this call did it.

        Whoever drives the request is woken after the lock was given back.
        """
        with self._lock:
            if self._end is not None:
                return False
            started_at, context = self._started or (None, None)
            self._end = PoolLife(
                number=self.number,
                budget=self._budget,
                outcome=outcome,
                error=error,
                tokens=tuple(self.tokens),
                asked_at=self._asked_at,
                started_at=started_at,
                first_at=self._first_at,
                ended_at=self._clock(),
                context=context,
                decode_calls=self.decode_calls,
            )
        self.wake()
        return True

    def cancel(self) -> bool:
        """Cancel it from any thread; False if it has ended already."""
        return self.settle(PoolOutcome.CANCELLED)
