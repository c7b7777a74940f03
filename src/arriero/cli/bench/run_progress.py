"""Live progress of a run: one line on a terminal, nothing anywhere else."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from arriero.bench.loops_watch import RunWatch

EVERY_S: Final = 0.5
"""Drawing takes a millisecond or two of the loop that measures, so it is rare."""


@asynccontextmanager
async def live_progress(
    watch: RunWatch, clock: Callable[[], int], title: Callable[[], str], stream: TextIO | None = None
) -> AsyncGenerator[None]:
    """Show how far a run has come while the block lasts.

    Args:
        watch: of the run.
        clock: that the run goes by, nanoseconds.
        title: what is running now.
        stream: where to; standard error by default.
    """
    shown = sys.stderr if stream is None else stream
    if not shown.isatty():
        yield
        return
    with Live(console=Console(file=shown), auto_refresh=False, transient=True) as live:
        drawing = asyncio.create_task(_draw(live, watch, clock, title))
        try:
            yield
        finally:
            drawing.cancel()
            await asyncio.wait({drawing})


async def _draw(live: Live, watch: RunWatch, clock: Callable[[], int], title: Callable[[], str]) -> None:
    while True:
        live.update(Text(progress_line(watch, clock(), title()), no_wrap=True, overflow="ellipsis"), refresh=True)
        await asyncio.sleep(EVERY_S)


def progress_line(watch: RunWatch, now: int, title: str) -> str:
    """What is running, its rate so far, and how its requests stand."""
    if watch.began_at is None:
        return f"{title}: getting ready"
    seconds = max(1e-9, (now - watch.began_at) / 1e9)
    failed = f", {watch.failed} failed" if watch.failed else ""
    return (
        f"{title}: {seconds:.0f} s, {watch.sent / seconds:.1f}/s, {watch.running} running, "
        f"{watch.ended}/{watch.planned} done{failed}, lag {watch.lag_ns / 1e6:.1f} ms "
        f"(worst {watch.worst_lag_ns / 1e6:.1f})"
    )
