"""Three questions: may a request enter, does it fit at all, may it start now.

`Backlog` is asked at the door, by whoever stands there: the live engine under its lock, the simulator when a request
arrives. `check_fits` is asked at the door as well, and again by `Scheduler.submit`; simulations may put another
`FitCheck` in its place. A `StartRule` is asked in each step, before memory is.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from arriero.core.errors import ConfigError, ContextTooLong, InvalidRequest, QueueFull
from arriero.core.request import Request


def check_fits(request: Request, sequence_limit: int) -> None:
    """Refuse what no sequence can ever hold.

    A request of P prompt tokens and D output tokens needs P + D - 1 positions: the last token sampled never enters KV.

    Raises:
        InvalidRequest: there is no prompt or no output.
        ContextTooLong: the positions exceed `sequence_limit`.
    """
    if not request.prompt:
        message = "the prompt has no tokens; send at least one"
        raise InvalidRequest(message, field="prompt")
    if request.max_tokens < 1:
        message = f"max_tokens must be at least 1, not {request.max_tokens}"
        raise InvalidRequest(message, field="max_tokens")
    num_prompt = len(request.prompt)
    needed = num_prompt + request.max_tokens - 1
    if needed > sequence_limit:
        message = (
            f"the prompt has {num_prompt} tokens and {request.max_tokens} may be generated, which needs {needed} "
            f"positions; one sequence of this server holds {sequence_limit}"
        )
        raise ContextTooLong(message, needed=needed, limit=sequence_limit)


FitCheck: TypeAlias = Callable[[Request, int], None]
"""Refuses a request that can never run where one sequence holds so many positions, by raising `InvalidRequest`."""


class StartRule(Protocol):
    """May a waiting request take a slot now, if memory has one."""

    @property
    def most_running(self) -> int:
        """Requests that it lets run at once, at most."""
        ...

    def may_start(self, num_running: int, num_started: int) -> bool:
        """`num_running` requests hold a slot; `num_started` of them took it in this step."""
        ...


class _Unbounded:
    """As many as memory has slots."""

    @property
    def most_running(self) -> int:
        """No bound of its own."""
        return sys.maxsize


class Continuous(_Unbounded):
    """Whenever a slot is free."""

    def may_start(self, num_running: int, num_started: int) -> bool:
        """Always."""
        del num_running, num_started
        return True


class AtMost:
    """Whenever fewer than so many run: other slots are there for runs whose requests have ended."""

    def __init__(self, most_running: int) -> None:
        """`most_running` is at least 1.

        Raises:
            ConfigError: it is less, so nobody could ever start.
        """
        if most_running < 1:
            message = f"at most {most_running} requests may run at once, so none ever could; at least 1 must"
            raise ConfigError(message)
        self._most_running = most_running

    @property
    def most_running(self) -> int:
        """The bound."""
        return self._most_running

    def may_start(self, num_running: int, num_started: int) -> bool:
        """Below the bound."""
        del num_started
        return num_running < self._most_running


class AllSlotsFree(_Unbounded):
    """Static batching: a group starts together when all of the one before have ended."""

    def may_start(self, num_running: int, num_started: int) -> bool:
        """As long as everybody who runs has started in this step."""
        return num_running == num_started


class OneAtATime:
    """Nobody beside another one."""

    @property
    def most_running(self) -> int:
        """One."""
        return 1

    def may_start(self, num_running: int, num_started: int) -> bool:
        """When nobody runs."""
        del num_started
        return num_running == 0


@dataclass(frozen=True, slots=True)
class BacklogCounts:
    """How the door was used.

    Attributes:
        in_flight: places taken now.
        peak: the most places taken at once.
        accepted: places ever taken.
        refused: how often none was left.
    """

    in_flight: int
    peak: int
    accepted: int
    refused: int


class Backlog:
    """Counts what is in flight, running or waiting, against one bound.

    Not thread-safe: the live engine holds its lock around each call.
    """

    def __init__(self, limit: int | None) -> None:
        """`limit` is sequences + backlog; None admits everybody."""
        self._limit = limit
        self._in_flight = 0
        self._peak = 0
        self._accepted = 0
        self._refused = 0

    @property
    def counts(self) -> BacklogCounts:
        """How the door was used so far."""
        return BacklogCounts(self._in_flight, self._peak, self._accepted, self._refused)

    def enter(self) -> None:
        """Take a place.

        Raises:
            QueueFull: none is left; nothing was taken.
        """
        if self._limit is not None and self._in_flight >= self._limit:
            self._refused += 1
            message = f"{self._in_flight} requests are in flight, which is the limit; try again later"
            raise QueueFull(message)
        self._in_flight += 1
        self._accepted += 1
        self._peak = max(self._peak, self._in_flight)

    def leave(self) -> None:
        """Give a place back."""
        assert self._in_flight > 0, "a place was given back twice"
        self._in_flight -= 1
