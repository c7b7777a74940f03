"""KeyedHeap: values in the order of their keys, any of which can be taken out.

A heap with lazy removal: O(log n) to add, to reach the head and to remove, and memory of no more than twice what is
in it, however much was removed before it reached the head.
"""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeAlias, TypeVar

from arriero.core.errors import InvariantViolation

Key: TypeAlias = tuple[int | float, ...]
ValueT = TypeVar("ValueT")

_COMPACT_FROM = 32


class KeyedHeap(Generic[ValueT]):
    """Values by key; keys are unique among those inside, and one that was removed may come back."""

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[Key] = []
        self._values: dict[Key, ValueT] = {}

    def __len__(self) -> int:
        """How many are inside."""
        return len(self._values)

    def __iter__(self) -> Iterator[ValueT]:
        """In order; O(n log n)."""
        return iter([self._values[key] for key in sorted(self._values)])

    def add(self, key: Key, value: ValueT) -> None:
        """Put a value in.

        Raises:
            InvariantViolation: the key is inside already; nothing has changed.
        """
        if key in self._values:
            message = f"two values of key {key}"
            raise InvariantViolation(message)
        self._values[key] = value
        heapq.heappush(self._heap, key)

    def remove(self, key: Key) -> ValueT | None:
        """Take a value out, wherever it stands; None if it is not inside."""
        value = self._values.pop(key, None)
        if len(self._heap) > _COMPACT_FROM and len(self._heap) > 2 * len(self._values):
            self._heap = sorted(self._values)
        return value

    def first_key(self) -> Key | None:
        """The smallest key, or None."""
        while self._heap:
            if self._heap[0] in self._values:
                return self._heap[0]
            heapq.heappop(self._heap)
        return None

    def first(self) -> ValueT | None:
        """The value of the smallest key, or None."""
        key = self.first_key()
        return None if key is None else self._values[key]

    def pop(self) -> ValueT:
        """Take the value of the smallest key out.

        Raises:
            InvariantViolation: nothing is inside.
        """
        key = self.first_key()
        if key is None:
            message = "nothing is inside"
            raise InvariantViolation(message)
        heapq.heappop(self._heap)
        return self._values.pop(key)
