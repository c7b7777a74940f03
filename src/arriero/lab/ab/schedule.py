"""The schedule of a paired comparison: which variant runs when; a pure function of what was stated before the run."""

import random
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from arriero.record.cpu_lab.ab_run import AbManifest, AbPhase, SideName

SEED: Final = 8081
"""Of the published order of sides within pairs."""

_BASELINE: Final = "baseline"
_OPTIMIZED: Final = "optimized"


class Invocation(NamedTuple):
    """One run that is planned."""

    phase: AbPhase
    pair: int
    side: SideName
    variant: SideName
    place: Literal[0, 1]
    execution_index: int

    @property
    def invocation_id(self) -> str:
        """One word that tells it from all others."""
        return f"{self.phase}:{self.pair}:{self.side}"


def schedule(manifest: AbManifest) -> tuple[Invocation, ...]:
    """All runs in their order: warm-ups in turns, A against itself, then A against B."""
    firsts: list[tuple[AbPhase, int, SideName]] = [
        *((AbPhase.WARM_UP, number, "a") for number in range(manifest.num_warm_ups)),
        *(
            (AbPhase.AA, pair, first)
            for pair, first in enumerate(first_sides(manifest.seed + 1, manifest.num_aa_pairs))
        ),
        *((AbPhase.AB, pair, first) for pair, first in enumerate(first_sides(manifest.seed, manifest.num_pairs))),
    ]
    return tuple(_invocations(firsts))


def first_sides(seed: int, num_pairs: int) -> list[SideName]:
    """Which side of each pair goes first, as published: a fresh list of both names, shuffled by one generator."""
    generator = random.Random(seed)
    found: list[SideName] = []
    for _ in range(num_pairs):
        names = [_BASELINE, _OPTIMIZED]
        generator.shuffle(names)
        found.append("a" if names[0] == _BASELINE else "b")
    return found


def _invocations(firsts: list[tuple[AbPhase, int, SideName]]) -> Iterator[Invocation]:
    index = 0
    for phase, pair, first in firsts:
        sides: tuple[SideName, SideName] = ("a", "b") if first == "a" else ("b", "a")
        places: tuple[Literal[0, 1], Literal[0, 1]] = (0, 1)
        for place, side in zip(places, sides, strict=True):
            variant: SideName = "a" if phase is AbPhase.AA else side
            yield Invocation(phase, pair, side, variant, place, index)
            index += 1
