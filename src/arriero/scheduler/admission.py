"""Two questions: does a request fit at all, and may it start now.

`check_fits` is asked at the door, where `scheduler/backlog.py` says whether there is a place, and again by
`Scheduler.submit`; simulations may put another `FitCheck` in its place. A `StartRule` is asked in each step, before
memory is.
"""

import sys
from collections.abc import Callable
from typing import Protocol, TypeAlias

from arriero.core.errors import ConfigError, ContextTooLong, InvalidRequest
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
