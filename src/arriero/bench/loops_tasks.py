"""TaskSet: tasks that a run starts and waits for; they may start others meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class TaskSet:
    """Keeps the tasks, since an event loop does not, and the first error of any."""

    def __init__(self, on_fault: Callable[[], None]) -> None:
        """`on_fault` is called once, when the first of them raises."""
        self._tasks: set[asyncio.Future[Any]] = set()
        self._fault: BaseException | None = None
        self._on_fault = on_fault

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start one."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def finish(self) -> None:
        """Wait until none is left.

        Raises:
            Exception: what the first of them raised.
        """
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._fault is not None:
            raise self._fault

    def _end(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and self._fault is None:
            self._fault = error
            self._on_fault()
