"""Target: whatever can be asked and measured: a server at an address, an engine in this process, the simulator.

A target never raises for what the asked side does. Every misbehaviour becomes an outcome with a word for its kind, so
that a run goes on and its counts add up.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from arriero.bench.ask import Ask
from arriero.metrics.client_life import ClientLife

Clock: TypeAlias = Callable[[], int]
"""Whole nanoseconds, monotonic. Whoever paces a run and its target hold the same one."""


class Target(Protocol):
    """Something that answers asks; used on one event loop.

    The calls come in the order `open`, any number of `ask` at the same time, `close`. `facts` may be called between
    them, before and after a run.
    """

    @property
    def name(self) -> str:
        """Short, for tables: an address, or what the user called it."""
        ...

    @property
    def kind(self) -> str:
        """`http`, `in-process` or `simulated`."""
        ...

    async def open(self) -> None:
        """Get ready to be asked.

        Raises:
            ConfigError: it cannot be asked at all, such as for a name that no address is known for. A server that
                does not answer yet is no reason.
        """
        ...

    async def ask(self, ask: Ask, intended_at: int | None) -> ClientLife:
        """Send one request and follow it to its end.

        Sends at once, whatever else is under way: pacing is the caller's business. Never waits for a connection that
        another ask holds.

        Args:
            ask: what to send.
            intended_at: copied into the life; None in a closed loop.

        Returns:
            The life, with one outcome. `is_warm_up` is False: whoever planned the run knows better.

        Raises:
            asyncio.CancelledError: the calling task was cancelled; the connection is closed and the life is lost. To
                end asks and keep what they have so far, call `give_up`.
        """
        ...

    def give_up(self, reason: str) -> None:
        """End every ask that is under way: each returns its life so far, with `TIMEOUT` and `reason` as its error.

        Args:
            reason: a word, such as `drain_limit` or `interrupted`.
        """
        ...

    async def facts(self) -> dict[str, Any]:
        """What is known of it, as JSON: for a server its address, name and models, and how connections were used."""
        ...

    async def close(self) -> None:
        """Give back what `open` took; asks still under way end as with `give_up("closed")`."""
        ...
