"""Decode calls made before an engine runs, on a thread that ends with them.

OpenMP keeps a pool of compute threads for each thread that ever computed, as long as that thread lives, and counts all
of them against the cores. With a pool too many, the threads of every later decode call sleep at each barrier, hundreds
of times a step, instead of spinning: one sequence on 2 cores then decodes at 38 tokens/s instead of 95.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_passing_thread(call: Callable[[], T]) -> T:
    """What `call` returns or raises; nothing of its thread is left afterwards."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="arriero-probe") as thread:
        return thread.submit(call).result()
