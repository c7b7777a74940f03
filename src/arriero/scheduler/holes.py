"""Holes: when a running request moves to a lower sequence id, where each sequence has a KV stream of its own.

llama.cpp computes consecutive, ascending ids in one pass over the weights, and every break in them starts another one:

    ids of the batch          passes
    0 1 2 3 4 5 6 7           1
    0 1 2 3     8 9 10 11     2
    0   2   4   6             4

Ids are handed out lowest first, so holes are left by requests that end before others. Whoever starts next fills the
lowest one; where nobody waits, the sequence with the highest id can be moved into it. That costs once, by its tokens,
and pays in every step from then on. Often only several moves together close a break, so the rule looks at all of them
before it makes the first; it makes one a step, since each delays the step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, cast

from arriero.core.errors import ConfigError
from arriero.core.ids import SequenceId, Time
from arriero.scheduler.progress import Progress


class Holes(Protocol):
    """Says who moves."""

    def mover(self, running: Sequence[Progress]) -> Progress | None:
        """The request whose sequence is to move to the lowest id below it that is not in use, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Somebody moves when that is predicted to save more time than it takes.

    The defaults are microseconds, measured with a small model: a break cost 5 to 7 ms a step, and taking the state of
    900 tokens out of a sequence and into another one 1.4 + 1.3 ms. Larger models have both larger, in about the same
    proportion: the one is a pass over the weights, the other grows with the KV of a token.

    Attributes:
        break_cost: time that each break takes in each step.
        move_cost: time that a move takes, whatever is moved.
        token_cost: time more for each token.
        horizon: steps that a prediction looks ahead at most: others end meanwhile, and those who come fill holes.
    """

    break_cost: Time = 5000
    move_cost: Time = 300
    token_cost: Time = 3
    horizon: int = 32

    def __post_init__(self) -> None:
        """Refuse costs under which nothing can be decided."""
        if min(self.break_cost, self.move_cost, self.token_cost) < 0 or self.horizon < 1:
            message = f"costs of closing holes are at least 0 and the horizon at least 1, not {self}"
            raise ConfigError(message)

    def mover(self, running: Sequence[Progress]) -> Progress | None:
        """The request of the highest id, if the moves that begin with it pay; O(running) where there is no hole."""
        held = cast("list[SequenceId]", [progress.sequence_id for progress in running])  # in every step: no call each
        if not held or max(held) - min(held) < len(held):
            return None
        return self._first_of_the_best(running, held)

    def _first_of_the_best(self, running: Sequence[Progress], held: list[SequenceId]) -> Progress | None:
        movers = sorted(running, key=lambda progress: progress.held_sequence, reverse=True)
        ids = sorted(held)
        in_use = set(ids)
        free = [each for each in range(ids[-1]) if each not in in_use]
        breaks_now = num_breaks(ids)
        cost: Time = 0
        best: Time = 0
        steps = self.horizon
        for progress, hole in zip(movers, free, strict=False):
            if ids[-1] < hole:
                break
            ids = sorted([*ids[:-1], SequenceId(hole)])
            cost += self.move_cost + self.token_cost * progress.num_computed
            steps = min(steps, progress.num_allowed - progress.num_known)
            saved = (breaks_now - num_breaks(ids)) * self.break_cost * steps
            best = max(best, saved - cost)
        return movers[0] if best > 0 else None


def num_breaks(ids: Sequence[int]) -> int:
    """Places in ascending ids where the next one is not the one after."""
    return sum(after - before > 1 for before, after in pairwise(ids))
