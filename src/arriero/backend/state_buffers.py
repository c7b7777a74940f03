"""StateBuffers: memory of saved runs that were forgotten, for the next ones.

A run of 500 tokens of a small model is 11 MB. Memory that the process touches for the first time is given to it page by
page, which took 30 ms for that on a virtual machine; into memory that it has, the same bytes are copied in 3 ms. Each
turn of a conversation forgets one run and saves another, so there is nearly always one at hand.
"""

from typing import Final

import numpy as np

from arriero.backend.sequence_state import Bytes

MOST_SPARE: Final = 8
SLACK: Final = 8
"""A buffer is used again for what fills it but for one part in so many."""


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
        fitting = [each for each in self._spare if size <= each.nbytes <= size + size // SLACK]
        if not fitting:
            return np.empty(size, np.uint8)
        buffer = min(fitting, key=lambda each: each.nbytes)
        self._spare = [each for each in self._spare if each is not buffer]
        return buffer[:size]

    def give_back(self, payload: Bytes) -> None:
        """Nobody uses these bytes any more, which `take` gave."""
        whole = payload if payload.base is None else payload.base
        assert isinstance(whole, np.ndarray), "a part of a buffer is an array over it"
        self._spare.append(whole)
        while len(self._spare) > MOST_SPARE or self.num_bytes > self._max_bytes:
            del self._spare[0]
