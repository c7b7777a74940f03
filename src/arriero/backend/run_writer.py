"""RunWriter: the thread that writes and removes run files, so that the engine's thread never does.

Orders are done one after the other, so a file that is written and then removed is gone.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arriero.backend.run_files import FoundRun, write_run
from arriero.backend.sequence_state import Bytes
from arriero.core.ids import TokenId

LOGGER: Final = logging.getLogger("arriero.host_store")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """One file to write.

    Attributes:
        done: told when the file is there; on the writer's thread.
        is_wanted: asked right before; False skips the file.
    """

    path: Path
    fingerprint: str
    scope: str
    tokens: tuple[TokenId, ...]
    payload: Bytes
    done: Callable[[FoundRun], None]
    is_wanted: Callable[[], bool]


class RunWriter:
    """Owns one thread from its making to `close`."""

    def __init__(self, max_pending: int) -> None:
        """`max_pending` files may wait to be written; each holds its bytes in memory until then."""
        self._max_pending = max_pending
        self._orders: deque[WriteOrder | Path] = deque()
        self._changed = threading.Condition()
        self._num_pending = 0  # write orders, the one under way included
        self._is_busy = False
        self._is_closing = False
        self._num_failed = 0
        self._thread = threading.Thread(target=self._work, name="arriero-run-files", daemon=True)
        self._thread.start()

    @property
    def num_pending(self) -> int:
        """Files that wait to be written, or are being written."""
        return self._num_pending

    @property
    def num_failed(self) -> int:
        """Files that the disk did not take."""
        return self._num_failed

    def write(self, order: WriteOrder) -> bool:
        """Have a file written; False if too many wait. Never waits itself."""
        with self._changed:
            if self._num_pending >= self._max_pending or self._is_closing:
                return False
            self._num_pending += 1
            self._orders.append(order)
            self._changed.notify_all()
        return True

    def remove(self, path: Path) -> None:
        """Have a file removed, after whatever was ordered before."""
        with self._changed:
            self._orders.append(path)
            self._changed.notify_all()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until nothing is left to do; False if that took too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._orders and not self._is_busy, timeout_s)

    def close(self) -> None:
        """Do what is left to do, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        while (order := self._next()) is not None:
            try:
                self._do(order)
            except OSError as problem:
                self._num_failed += 1
                path = order if isinstance(order, Path) else order.path
                LOGGER.warning("%s is not kept up to date: %s", path, problem)
            with self._changed:
                self._num_pending -= isinstance(order, WriteOrder)
                self._is_busy = False
                self._changed.notify_all()

    def _next(self) -> WriteOrder | Path | None:
        """The next order, or None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._orders or self._is_closing)
            self._is_busy = bool(self._orders)
            return self._orders.popleft() if self._orders else None

    @staticmethod
    def _do(order: WriteOrder | Path) -> None:
        if isinstance(order, Path):
            order.unlink(missing_ok=True)
        elif order.is_wanted():
            order.done(write_run(order.path, order.fingerprint, order.scope, order.tokens, order.payload))
