"""The event loop of a run: uvloop where there is one, and as many open files as the system allows."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

if sys.platform != "win32":
    import resource

    import uvloop

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The quickest event loop of this platform."""
    return asyncio.new_event_loop() if sys.platform == "win32" else uvloop.new_event_loop()


def run(work: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Run to the end on a fresh event loop of its own, like `asyncio.run`."""
    raise_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop, debug=debug) as runner:
        return runner.run(work)


def raise_file_limit() -> int | None:
    """Let this process open as many files as it may, since every connection is one.

    Returns:
        How many that is; None where the platform does not say.
    """
    if sys.platform == "win32":
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
