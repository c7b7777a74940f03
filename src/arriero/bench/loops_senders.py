"""Senders: who starts the lines of a run; a clock in an open loop, clients in a closed one."""

import asyncio
from collections import deque

from arriero.bench.loops_lines import Lines
from arriero.bench.schedule import Planned


async def send_by_clock(lines: Lines) -> None:
    """Start each head when it is due, whatever became of those before."""
    for item in lines.schedule.heads():
        if lines.over_for is not None:
            return
        assert item.at_ns is not None, "what follows nothing has a time in an open loop"
        due = lines.began_at + item.at_ns
        lines.last_due = max(lines.last_due, due)
        await lines.pace.sleep_until(due)
        lines.tasks.spawn(lines.line(item, due))
        # A task starts at the next turn of the loop, also when the sender is late and does not sleep.
        await asyncio.sleep(0)


async def send_by_clients(lines: Lines) -> None:
    """Let clients share the heads; over when they have taken all of them, or the time is over."""
    heads = deque(lines.schedule.heads())
    taken = asyncio.Event()
    clients = _Clients(lines, heads, taken)
    for starts_at in lines.schedule.client_starts:
        lines.tasks.spawn(clients.client(lines.began_at + starts_at))
    await taken.wait()


class _Clients:
    """Clients of a closed loop; whoever is free takes the next head."""

    def __init__(self, lines: Lines, heads: deque[Planned], taken: asyncio.Event) -> None:
        self._lines = lines
        self._heads = heads
        self._taken = taken
        self._has_time()

    async def client(self, starts_at: int) -> None:
        """One client from its start to the end of the heads."""
        try:
            await self._serve(starts_at)
        except BaseException:
            self._taken.set()  # nobody waits for the rest
            raise

    async def _serve(self, starts_at: int) -> None:
        lines = self._lines
        ready_at = starts_at
        is_first = True
        while self._has_time():
            item = self._heads.popleft()
            due = ready_at + (0 if is_first else item.think_ns)
            if not await self._wait(item, due):
                return
            if not self._heads:
                self._taken.set()  # the last one is on its way
            await lines.line(item, None)
            ready_at, is_first = lines.pace.clock(), False

    async def _wait(self, item: Planned, due: int) -> bool:
        """Whether its time comes in time; an item that cannot be sent is put back."""
        lines = self._lines
        in_time = lines.ends_at is None or due < lines.ends_at
        if in_time and await lines.wait_until(due):
            return True
        self._heads.appendleft(item)
        if not in_time:
            self._taken.set()
        return False

    def _has_time(self) -> bool:
        lines = self._lines
        is_late = lines.ends_at is not None and lines.pace.clock() >= lines.ends_at
        if not self._heads or is_late or lines.over_for is not None:
            self._taken.set()
            return False
        return True
