"""Placements by word: where the engine of an experiment runs.

shared      the event loop, and one worker thread for the backend
dedicated   a thread of its own
pinned      a thread of its own on the last CPU that this process may use, with the compute threads it starts
"""

import os
from typing import Literal, TypeAlias

from arriero.core.errors import ConfigError
from arriero.engine.placement import Dedicated, Placement, Shared

PlacementWord: TypeAlias = Literal["shared", "dedicated", "pinned"]


def placement_of(word: PlacementWord) -> Placement:
    """Where an engine is to run; `pinned` takes the last CPU that this process may use.

    Raises:
        ConfigError: this system cannot pin.
    """
    if word == "shared":
        return Shared()
    return Dedicated((last_cpu(),)) if word == "pinned" else Dedicated()


def last_cpu() -> int:
    """The last CPU that this process may use.

    Raises:
        ConfigError: this system does not say.
    """
    if not hasattr(os, "sched_getaffinity"):
        raise ConfigError("this system cannot pin a thread to a CPU; leave the placement `pinned` out")
    return max(os.sched_getaffinity(0))
