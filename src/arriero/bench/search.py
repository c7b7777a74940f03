"""Search for the flags that serve a server best: successive halving over a small grid that was declared beforehand.

A comparison with a server that was started badly says nothing about the server. So its flags are searched first, on
the very load that will be compared, and every trial is kept.

    stage     candidates: the winner so far, and it with the stage's flags
    rung      all that are left are measured in rounds, in a new order each round; the better half goes on, and gets
              twice as many rounds, until one is left

A round gives each candidate its figure as a ratio to the median of that round, so a machine that grows slower by the
round favours nobody. The score is the median over all rounds of the rung. The winner's own figure is flattered, since
it won by chance as well; the comparison afterwards measures it anew.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Final, TypeAlias

from arriero.bench.servers import ServerFailed
from arriero.core.errors import ConfigError
from arriero.record.bench_compare_parts import SearchTrial

MOST_CANDIDATES: Final = 64
"""More in one stage is no small grid any more."""

Flags: TypeAlias = tuple[str, ...]

Measure: TypeAlias = Callable[[Flags, int], Awaitable[float | None]]
"""One trial: the figure of a server with these flags in a round; None if it has none. Raises ServerFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One thing that can be set.

    Attributes:
        name: for people.
        choices: the flags of each setting; none at all is the server's default.
    """

    name: str
    choices: tuple[Flags, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Knobs that are searched together.

    Attributes:
        knobs: at least one.
        combined: every combination of all settings; else one change at a time.
    """

    knobs: tuple[Knob, ...]
    combined: bool = True

    def candidates(self, base: Flags) -> tuple[Flags, ...]:
        """The base with each choice, each once, in the order of declaration."""
        if self.combined:
            found = [sum(choice, base) for choice in product(*(knob.choices for knob in self.knobs))]
        else:
            found = [base, *(base + choice for knob in self.knobs for choice in knob.choices)]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """What is tried; fixed before the first trial.

    Attributes:
        stages: one after the other, each from the winner of the one before.
        num_rounds: of the first rung.
    """

    stages: tuple[Stage, ...]
    num_rounds: int = 2

    def check(self) -> None:
        """Refuse a grid that is not small.

        Raises:
            ConfigError: a stage has too many candidates.
        """
        for number, stage in enumerate(self.stages, start=1):
            if (count := len(stage.candidates(()))) > MOST_CANDIDATES:
                raise ConfigError(
                    f"search stage {number}: {count} candidates; leave at most {MOST_CANDIDATES}, or split the stage"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOutcome:
    """The best flags, and how they were found."""

    best: Flags
    trials: tuple[SearchTrial, ...]


Tell: TypeAlias = Callable[[SearchTrial], None]


async def search(
    plan: SearchPlan, measure: Measure, *, higher_is_better: bool, seed: int, tell: Tell = lambda _: None
) -> SearchOutcome:
    """Find the best flags.

    Args:
        plan: what is tried.
        measure: one trial.
        higher_is_better: of the figure.
        seed: of the order within each round.
        tell: is told each trial when its rung is over.

    Raises:
        ConfigError: the plan is too large. ServerFailed: no candidate of a stage could be measured.
    """
    plan.check()
    best: Flags = ()
    trials: list[SearchTrial] = []
    rng = random.Random(seed)
    for number, stage in enumerate(plan.stages):
        halving = _Halving(number, measure, rng, higher_is_better=higher_is_better)
        left, num_rounds = list(stage.candidates(best)), plan.num_rounds
        while True:
            found = await halving.rung(left, num_rounds)
            trials.extend(found)
            for trial in found:
                tell(trial)
            left, num_rounds = [trial.flags for trial in found if trial.kept], 2 * num_rounds
            if len(left) == 1:
                best = left[0]
                break
    return SearchOutcome(best=best, trials=tuple(trials))


class _Halving:
    """The rungs of one stage."""

    def __init__(self, stage: int, measure: Measure, rng: random.Random, *, higher_is_better: bool) -> None:
        self._stage = stage
        self._measure = measure
        self._rng = rng
        self._higher_is_better = higher_is_better
        self._num_rungs = 0
        self._num_rounds = 0  # over all rungs, so that no round's prompts come again

    async def rung(self, candidates: Sequence[Flags], num_rounds: int) -> list[SearchTrial]:
        """Measure all of them; the better half is kept, the first declared of equals.

        Raises:
            ServerFailed: nothing could be measured.
        """
        values: dict[Flags, list[float | None]] = {flags: [] for flags in candidates}
        failed: dict[Flags, str] = {}
        for _ in range(num_rounds):
            for flags in self._rng.sample(list(candidates), len(candidates)):
                if flags not in failed:
                    await self._try(flags, values[flags], failed)
            self._num_rounds += 1
        scores = _scores(values, failed, higher_is_better=self._higher_is_better)
        if not scores:
            raise ServerFailed(f"search: no candidate could be measured; the first says: {next(iter(failed.values()))}")
        ranked = sorted(scores, key=lambda flags: -scores[flags])
        kept = ranked[: (len(ranked) + 1) // 2]
        rung = self._num_rungs
        self._num_rungs += 1
        return [
            SearchTrial(
                stage=self._stage,
                rung=rung,
                flags=flags,
                values=tuple(values[flags]),
                score=scores.get(flags),
                kept=flags in kept,
                failed=failed.get(flags),
            )
            for flags in candidates
        ]

    async def _try(self, flags: Flags, values: list[float | None], failed: dict[Flags, str]) -> None:
        try:
            values.append(await self._measure(flags, self._num_rounds))
        except (ServerFailed, ConfigError) as error:
            failed[flags] = str(error)


def _scores(
    values: dict[Flags, list[float | None]], failed: dict[Flags, str], *, higher_is_better: bool
) -> dict[Flags, float]:
    """Candidate → median ratio to the median of its rounds; those without any figure are failed here."""
    alive = {flags: each for flags, each in values.items() if flags not in failed}
    centres = [_centre(column) for column in zip(*alive.values(), strict=True)]
    power = 1 if higher_is_better else -1
    scores: dict[Flags, float] = {}
    for flags, each in alive.items():
        ratios = [
            (value / centre) ** power
            for value, centre in zip(each, centres, strict=True)
            if value is not None and value > 0 and centre is not None
        ]
        if ratios:
            scores[flags] = median(ratios)
        else:
            failed[flags] = "no round gave a figure"
    return scores


def _centre(column: Sequence[float | None]) -> float | None:
    """The median of one round's figures."""
    figures = [value for value in column if value is not None and value > 0]
    return median(figures) if figures else None
