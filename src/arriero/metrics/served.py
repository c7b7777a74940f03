"""Served: what became of one request, and the tally of all of them."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from arriero.metrics.latency import Life, gaps
from arriero.metrics.window import Window


class Outcome(StrEnum):
    """How a request ended."""

    FINISHED = "finished"
    REJECTED = "rejected"  # refused on arrival
    CANCELLED = "cancelled"  # planned by the workload: in no latency table
    UNFINISHED = "unfinished"  # the run ended before it did


class Served(NamedTuple):
    """One request after the run."""

    life: Life
    outcome: Outcome
    prompt_tokens: int
    cached_tokens: int  # of the prompt, taken over at the first start
    was_looked_up: bool  # in a prefix cache
    largest_gap: int | None  # between two of its tokens
    num_preemptions: int = 0
    recomputed_tokens: int = 0


@dataclass(slots=True)
class GapTally:
    """Gaps between tokens, pooled over requests.

    Gaps repeat a lot, since steps of one shape take one time, so they are kept as counts.

    Attributes:
        pooled: gap → how often: each token counts once.
        shared: gap → weight: each request counts once, divided evenly among its gaps.
    """

    pooled: Counter[int] = field(default_factory=Counter[int])
    shared: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, token_at: Sequence[int]) -> int | None:
        """Count the gaps of one request; the largest, or None without one."""
        samples = [int(gap) for gap in gaps(token_at)]
        if not samples:
            return None
        weight = 1 / len(samples)
        for gap, count in Counter(samples).items():
            self.pooled[gap] += count
            self.shared[gap] += count * weight
        return max(samples)


@dataclass(slots=True)
class ServedTally:
    """Requests in the order of their rows; keeps no token times.

    Attributes:
        window: tokens are counted in it apart; None counts none.
        tokens_in_window: tokens that came in the window, whatever became of their request.
    """

    window: Window | None = None
    requests: list[Served] = field(default_factory=list[Served])
    gaps: GapTally = field(default_factory=GapTally)
    tokens_in_window: int = 0

    def add(
        self,
        served: Served,
        token_at: Sequence[int],
    ) -> None:
        """Count one request.

        Args:
            served: its figures; `largest_gap` is filled in here.
            token_at: when each of its tokens came, ascending.
        """
        largest = self.gaps.add(token_at)
        self.requests.append(served._replace(largest_gap=largest))
        if self.window is not None:
            self.tokens_in_window += self.window.count(token_at)
