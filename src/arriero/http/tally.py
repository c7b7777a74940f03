"""Tally: counts and distributions by name and label values, filled by one side and read by another."""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

SECONDS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 600,
)  # fmt: skip
SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


class Key(NamedTuple):
    """Which series."""

    name: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram at one moment.

    Attributes:
        buckets: upper bound and how many observations do not exceed it, the last bound infinite.
    """

    buckets: tuple[tuple[float, int], ...]
    sum: float


class _Histogram:
    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def read(self) -> Distribution:
        bounds = (*self.bounds, float("inf"))
        return Distribution(tuple(zip(bounds, accumulate(self.counts), strict=True)), self.sum)


class Tally:
    """Numbers that only grow, and gauges that are set."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._counts: dict[Key, float] = {}
        self._histograms: dict[Key, _Histogram] = {}

    def add(self, name: str, amount: float = 1, *labels: str) -> None:
        """Count."""
        key = Key(name, labels)
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + amount

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge, or a count that somebody else keeps."""
        with self._lock:
            self._counts[Key(name, labels)] = value

    def observe(self, name: str, value: float, *labels: str, bounds: Sequence[float] = SECONDS) -> None:
        """Add an observation to a distribution; `bounds` are those of its first one."""
        key = Key(name, labels)
        with self._lock:
            histogram = self._histograms.get(key)
            if histogram is None:
                histogram = self._histograms[key] = _Histogram(bounds)
            histogram.counts[bisect_left(histogram.bounds, value)] += 1
            histogram.sum += value

    def count(self, name: str, *labels: str) -> float:
        """A count or gauge; 0 if it was never touched."""
        with self._lock:
            return self._counts.get(Key(name, labels), 0)

    def distribution(self, name: str, *labels: str, bounds: Sequence[float] = SECONDS) -> Distribution:
        """A distribution; empty if nothing was observed."""
        with self._lock:
            histogram = self._histograms.get(Key(name, labels))
            return (_Histogram(bounds) if histogram is None else histogram).read()
