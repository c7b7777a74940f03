"""WorkLoop: a whole server in virtual time: what others do on threads is done at once, and takes as long as it says.

    loop = work_loop()
    backend = FaultyBackend(inner, TimedSteps(loop, base_us=10_000, row_us=1_000))
    engine = Engine(backend, clock=loop.time_us)
    engine.start(Shared())

Work handed to an executor runs inside the loop, and its result comes back when the time has passed for which it called
`spend`; the loop goes on meanwhile, as it does beside a decode call. Nothing depends on how fast the machine is.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple, cast

from arriero.core.plan import PrefillChunk, Row
from arriero.testing.faults import Fault
from arriero.testing.virtual_loop import VirtualLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_US: Final = 1_000_000


class WorkLoop(VirtualLoop):
    """An event loop that is its own worker thread."""

    def __init__(self) -> None:
        """Nothing has been done yet."""
        super().__init__()
        self._spent_us = 0

    def time_us(self) -> int:
        """Whole microseconds: the clock of an engine."""
        return self.time_ns() // 1000

    def spend(self, duration_us: int) -> None:
        """Called by work: it takes so much longer."""
        self._spent_us += duration_us

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Do the work now; the future has its result when its time has passed."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        self._spent_us = 0
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            tell: Callable[[], None] = _teller(future, future.set_exception, error)
        else:
            tell = _teller(future, future.set_result, result)
        if self._spent_us:
            self.call_later(self._spent_us / _US, tell)
        else:
            tell()
        return future


def _teller(future: asyncio.Future[T], tell: Callable[[Any], None], value: object) -> Callable[[], None]:
    """Tells a future its end, unless nobody waits for it any more."""

    def told() -> None:
        if not future.done():
            tell(value)

    return told


class TimedSteps(Fault):
    """A decode call takes a base, and so much for each prompt row."""

    def __init__(self, loop: WorkLoop, *, base_us: int, row_us: int = 0) -> None:
        """On which loop the backend works."""
        self.base_us = base_us
        self._loop = loop
        self._row_us = row_us

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        """Let the time pass."""
        del call
        num_rows = sum(row.num_rows for row in rows if isinstance(row, PrefillChunk))
        self._loop.spend(self.base_us + self._row_us * num_rows)


def run_working(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a fresh loop."""
    with asyncio.Runner(loop_factory=WorkLoop) as runner:
        return runner.run(work)


def work_loop() -> WorkLoop:
    """The running loop."""
    return cast("WorkLoop", asyncio.get_running_loop())
