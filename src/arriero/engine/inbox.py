"""Inbox: the one way into an engine.

An unbounded queue of typed messages. Producers never block and come from any thread; one consumer takes everything
that is there between two steps. A submission gets its epoch and enters the queue under one lock, so the order in which
messages are taken is the order of their epochs.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Literal, TypeAlias

from arriero.core.errors import ArrieroError
from arriero.core.events import CancelTarget, RetainedAction, RetainedReport
from arriero.core.ids import Epoch, Time
from arriero.core.request import Request
from arriero.costmodel.change import CostChange
from arriero.engine.handle import RequestHandle
from arriero.engine.observer import EngineSnapshot
from arriero.kv.reuse import CachePicture


class _AtOnce(Enum):
    AT_ONCE = auto()


AT_ONCE: Final = _AtOnce.AT_ONCE
"""Do not wait for a message."""

Until: TypeAlias = Time | Literal[_AtOnce.AT_ONCE] | None
"""How long to wait for a message: not at all, until a time, or (None) for as long as it takes."""


@dataclass(frozen=True, slots=True)
class Submit:
    """A new request and the handle on which its caller waits."""

    request: Request
    handle: RequestHandle


@dataclass(frozen=True, slots=True)
class Cancel:
    """A cancel by id, by token (id and epoch), or of everything."""

    target: CancelTarget


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Take no new work, finish what can be finished, and end; a latch."""


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Hand out fresh figures at the next boundary."""

    answer: Future[EngineSnapshot]


@dataclass(frozen=True, slots=True)
class TakePicture:
    """Show at the next boundary what is retained."""

    answer: Future[CachePicture | None]


@dataclass(frozen=True, slots=True)
class Tend:
    """Do something with all retained runs at the next boundary, and say when it is done."""

    action: RetainedAction
    answer: Future[RetainedReport]


@dataclass(frozen=True, slots=True)
class Recalibrate:
    """Plan with other costs from this boundary on; the actor posts it, so that it is one message among others."""

    change: CostChange


Message: TypeAlias = Submit | Cancel | Shutdown | TakeSnapshot | TakePicture | Tend | Recalibrate


def in_boundary_order(messages: list[Message]) -> list[Message]:
    """Cancels first, then submissions, then the rest, each in posting order: the order of both loops."""
    return sorted(messages, key=_boundary_rank)


def _boundary_rank(message: Message) -> int:
    match message:
        case Cancel():
            return 0
        case Submit():
            return 1
        case _:
            return 2


class Inbox:
    """Many producers, one consumer."""

    def __init__(self) -> None:
        """Start open and empty."""
        self._changed = threading.Condition()
        self._messages: list[Message] = []
        self._last_epoch = Epoch(0)
        self._refusal: ArrieroError | None = None
        self._is_closed = False
        self._on_post: Callable[[], object] | None = None

    def submit(self, make: Callable[[Epoch], Submit]) -> RequestHandle:
        """Issue the next epoch and post the submission made with it.

        Raises:
            Draining, EngineDied: the engine takes no new work; nothing was posted.
        """
        with self._changed:
            if self._refusal is not None:
                raise self._refusal
            self._last_epoch = Epoch(self._last_epoch + 1)
            message = make(self._last_epoch)
            self._append(message)
        return message.handle

    def post(self, message: Message) -> bool:
        """Post anything but a submission; False if nobody will read it any more."""
        with self._changed:
            if self._is_closed:
                return False
            self._append(message)
            return True

    def refuse(self, error: ArrieroError) -> None:
        """Answer every later submission with `error`; other messages are still taken."""
        with self._changed:
            self._refusal = error

    def close(self) -> None:
        """Take no message of any kind any more; what is there can still be taken."""
        with self._changed:
            self._is_closed = True

    @property
    def refusal(self) -> ArrieroError | None:
        """The error that a submission would get now, or None."""
        return self._refusal

    def __len__(self) -> int:
        """Messages that wait to be taken."""
        return len(self._messages)

    def take(self) -> list[Message]:
        """Everything that is there, in boundary order; never waits."""
        if not self._messages:  # seen without the lock: what comes a moment later is taken at the next boundary
            return []
        with self._changed:
            messages, self._messages = self._messages, []
        return in_boundary_order(messages) if len(messages) > 1 else messages

    def wait(self, timeout_s: float | None) -> None:
        """Wait in a plain thread for a message, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._messages), timeout_s)

    def on_post(self, callback: Callable[[], object] | None) -> None:
        """Call this after each post, from the producer's thread; for a consumer on an event loop."""
        with self._changed:
            self._on_post = callback
            has_messages = bool(self._messages)
        if callback is not None and has_messages:
            callback()

    def _append(self, message: Message) -> None:
        self._messages.append(message)
        self._changed.notify()
        if self._on_post is not None:
            self._on_post()
