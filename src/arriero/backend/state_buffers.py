"""StateBuffers: memory of saved runs that were forgotten, for the next ones.

A run of 500 tokens of a small model is 11 MB. Memory that the process touches for the first time is given to it page by
page, which took 25 ms for that on a virtual machine; into memory that it has, the same bytes are copied in half of one.
Each turn of a conversation forgets one run and saves another, so there is nearly always one at hand. Where there is
none, pages of 2 MiB are asked for, of which there are fewer: 7 ms.
"""

import mmap
from typing import Final

import numpy as np

from arriero.backend.sequence_state import Bytes

MOST_SPARE: Final = 8
SLACK: Final = 8
"""A buffer is used again for what fills it but for one part in so many, or for one large page."""
HUGE_PAGE: Final = 2 << 20
"""Bytes; what is smaller than two of these has pages of the usual size."""
_HUGE: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)


class StateBuffers:
    """Belongs to its host store."""

    def __init__(self, max_bytes: int) -> None:
        """At most so many bytes lie idle."""
        self._max_bytes = max_bytes
        self._spare: list[Bytes] = []  # the one given back last behind the others

    @property
    def num_bytes(self) -> int:
        """That lie idle."""
        return sum(buffer.nbytes for buffer in self._spare)

    def take(self, size: int) -> Bytes:
        """Bytes of exactly this size, with anything in them."""
        fitting = [each for each in self._spare if size <= each.nbytes <= size + _slack(size)]
        if not fitting:
            return _fresh(size)
        buffer = min(fitting, key=lambda each: each.nbytes)
        self._spare = [each for each in self._spare if each is not buffer]
        return buffer[:size]

    def give_back(self, payload: Bytes) -> None:
        """Nobody uses these bytes any more, which `take` gave."""
        self._spare.append(payload.base if isinstance(payload.base, np.ndarray) else payload)
        while len(self._spare) > MOST_SPARE or self.num_bytes > self._max_bytes:
            del self._spare[0]


def _slack(size: int) -> int:
    """Bytes that a buffer may be too large by."""
    return size // SLACK if size < 2 * HUGE_PAGE else max(size // SLACK, HUGE_PAGE)


def _fresh(size: int) -> Bytes:
    """Bytes that nobody has touched yet; in large pages where the system has such and it is worth it."""
    if _HUGE is None or size < 2 * HUGE_PAGE:
        return np.empty(size, np.uint8)
    pages = mmap.mmap(-1, -(-size // HUGE_PAGE) * HUGE_PAGE)
    pages.madvise(_HUGE)
    return np.frombuffer(pages, np.uint8)[:size]
