"""Interrupter: a decode call under way that is ended early, for a cancel or since it takes far too long.

A cancel is seen between two steps. A call that computes a long prompt can take seconds, all of them for nobody, so
whoever cancels looks, on its own thread, whether the call holds the request and how long it will go on:

    post the cancel → is its request in the running call? → is the rest long enough? → interrupt

The call ends, its rows are taken back, the next step finds the cancel posted and computes the others again: their
tokens are the same. That work is done twice, so of two calls in a row only one may be interrupted, but for the cancel
of everybody, after which nothing has to be done again.

A call that is far over its prediction has met a neighbour on its cores: fewer threads compute the same rows in a part
of the time that it would go on for. `engine/overdue.py` looks at the clock, and here the call is ended.
"""

import threading
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, assert_never

from arriero.core.events import CancelById, CancelByToken, CancelEverything, CancelTarget, CancelWaiting
from arriero.core.ids import Epoch, RequestId, Time


class Interruption(StrEnum):
    """Why a call was ended."""

    CANCEL = "cancel"
    OVERDUE = "overdue"


class InterruptibleCall(NamedTuple):
    """A decode call.

    Attributes:
        epochs: of the requests that it computes for, by their ids.
        ends_at: when it is predicted to end; its beginning where nothing is predicted.
        for_one: whether the cancel of a single request may interrupt it.
        overdue_at: when it has taken far too long; None: it may take whatever it takes.
    """

    epochs: Mapping[RequestId, Epoch]
    ends_at: Time
    for_one: bool
    overdue_at: Time | None = None

    def rest(self, now: Time) -> Time:
        """How long it will go on: until its end; and if that is over, as long again as it is over."""
        return abs(self.ends_at - now)

    def computes_for(self, target: CancelTarget) -> bool:
        """Whether a cancel of this target makes it useless, in part or as a whole."""
        match target:
            case CancelById(request_id):
                return self.for_one and request_id in self.epochs
            case CancelByToken(request_id, epoch):
                return self.for_one and self.epochs.get(request_id) == epoch
            case CancelEverything():
                return True
            case CancelWaiting():
                return False
            case _:
                assert_never(target)


class Interrupter:
    """Between those who cancel or watch the clock, on any thread, and the place where the backend lives.

    Attributes:
        timed: set when a call begins that can be overdue; whoever watches clears it.
        last: why the last call was ended early; None: it was not.
    """

    def __init__(self, interrupt: Callable[[], None], after: Time | None) -> None:
        """Nothing is under way.

        Args:
            interrupt: makes a running decode call return early; of a call that has just ended it does nothing.
            after: a call that goes on for so long at least is interrupted by a cancel; None: none ever is.
        """
        self.timed = threading.Event()
        self.last: Interruption | None = None
        self._interrupt = interrupt
        self._after = after
        self._lock = threading.Lock()
        self._call: InterruptibleCall | None = None

    @property
    def is_on(self) -> bool:
        """Whether a cancel may interrupt any call."""
        return self._after is not None

    def enter(self, call: InterruptibleCall) -> None:
        """The call begins; where the backend lives."""
        with self._lock:
            self._call = call
            self.last = None
        if call.overdue_at is not None and not self.timed.is_set():
            self.timed.set()

    def leave(self) -> None:
        """It is over, and nobody interrupts it any more."""
        with self._lock:
            self._call = None

    def cancelled(self, target: CancelTarget, now: Time) -> bool:
        """A cancel was posted: interrupt the call if it pays; whether that was done. From any thread, never waits long.

        The lock is held over the interrupt, so it cannot meet the call after.
        """
        if self._after is None:
            return False
        with self._lock:
            call = self._call
            if call is None or call.rest(now) < self._after or not call.computes_for(target):
                return False
            self._end(Interruption.CANCEL)
            return True

    @property
    def overdue_at(self) -> Time | None:
        """When the running call has taken far too long; None: there is none, or it may take whatever it takes."""
        call = self._call
        return None if call is None else call.overdue_at

    def end_overdue(self, now: Time) -> bool:
        """End the running call if it has taken far too long; whether that was done. From any thread."""
        with self._lock:
            call = self._call
            if call is None or call.overdue_at is None or now < call.overdue_at:
                return False
            self._end(Interruption.OVERDUE)
            return True

    def _end(self, why: Interruption) -> None:
        """Once; the lock is held."""
        self._call = None
        self.last = why
        self._interrupt()
