"""Placements by word: where the engine of an experiment runs.

shared      the event loop, and one worker thread for the backend
dedicated   a thread of its own
pinned      a thread of its own on the last CPU that this process may use, with the compute threads it starts
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeAlias

from arriero.core.errors import ConfigError
from arriero.engine.placement import Dedicated, Placement, Shared

PlacementWord: TypeAlias = Literal["shared", "dedicated", "pinned"]


class PlacementRefused(ConfigError):
    """This machine cannot give an engine the placement that was asked for."""


def placement_of(word: PlacementWord) -> Placement:
    """Where an engine is to run; `pinned` takes the last CPU that this process may use.

    Raises:
        PlacementRefused: this system cannot pin.
    """
    if word == "shared":
        return Shared()
    return Dedicated((last_cpu(),)) if word == "pinned" else Dedicated()


def last_cpu() -> int:
    """The last CPU that this process may use, after a thread was pinned to it.

    Raises:
        PlacementRefused: this system cannot pin, or forbids it.
    """
    if not hasattr(os, "sched_getaffinity"):
        raise PlacementRefused("this system cannot pin a thread to a CPU; leave the placement `pinned` out")
    cpu = max(os.sched_getaffinity(0))
    try:
        with ThreadPoolExecutor(1) as threads:  # a thread of its own, since pinning cannot be taken back
            threads.submit(os.sched_setaffinity, 0, {cpu}).result()
    except OSError as error:
        message = f"CPU {cpu}: no thread may be pinned to it ({error.strerror}); leave the placement `pinned` out"
        raise PlacementRefused(message) from error
    return cpu
