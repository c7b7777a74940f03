"""From measured steps to the costs of a pass, and how well they fit."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from arriero.costmodel.calibrated import StepKind, ValidRange, kind_of
from arriero.costmodel.passes import PassRules, split
from arriero.costmodel.terms import TERMS, PassCosts, amounts
from arriero.costmodel.tiles import UNCUT, Tiles, tiles_of
from arriero.lab.level import lateness, running_level
from arriero.lab.nonnegative import Floats, solve_robust
from arriero.lab.stand import Sample
from arriero.record.cost_profile import Residuals

OUTLIER: Final = 1.5
"""A step that takes so many times its shape's median was disturbed."""


_LEVEL_ROUNDS: Final = 4
_LEVEL_SETTLED: Final = 5e-3


class FittedPasses(NamedTuple):
    """What the steps at one number of threads gave.

    Attributes:
        costs: of a pass, on this machine at its usual speed.
        level: float64[num_samples], how slow the machine was at each step; 1 is usual, 1.2 a fifth slower.
        late: by which part the machine was slower than usual for one second in twenty.
    """

    costs: PassCosts
    level: Floats
    late: float


def fit_passes(samples: Sequence[Sample], rules: PassRules, threads: int = 1) -> FittedPasses:
    """The costs at the one number of threads at which these steps were measured; held-out shapes are not looked at.

    Errors are relative, so that short steps count as much as long ones, and every shape counts the same, however often
    it was visited. What the machine's speed did meanwhile is told apart from what the shapes cost: costs and level are
    fitted in turn, until the level stays.

    Args:
        samples: in the order in which they were measured.
        rules: of the context.
        threads: that computed them.
    """
    tiles = tiles_of(rules.tiled_heads, threads)
    places = [place for place, sample in enumerate(samples) if not sample.probe.is_held_out]
    fitted = [samples[place] for place in places]
    visits = Counter(_shape_of(sample) for sample in fitted)
    matrix = np.array([step_amounts(sample, rules, tiles) for sample in fitted])
    target = np.array([max(sample.decode_us, 1e-3) for sample in fitted])
    weights = np.array([visits[_shape_of(sample)] ** -0.5 for sample in fitted])
    level, moved, rounds = np.ones(len(fitted)), np.inf, 0
    costs = solve_robust(matrix, target, weights)
    while moved > _LEVEL_SETTLED and rounds < _LEVEL_ROUNDS:
        before, level = level, running_level(target / np.maximum(matrix @ costs, 1e-3), target)
        moved, rounds = float(np.abs(level - before).max(initial=0)), rounds + 1
        costs = solve_robust(matrix, target / level, weights)
    return FittedPasses(
        costs=PassCosts(tuple(float(value) for value in costs), tiles),
        level=np.interp(np.arange(len(samples)), places, level),
        late=lateness(level, target),
    )


def step_amounts(sample: Sample, rules: PassRules, tiles: Tiles = UNCUT) -> Floats:
    """How much of each term a whole step has; float64[num_terms]."""
    total = np.zeros(len(TERMS))
    for one in split(sample.rows, rules, pool=sample.pool, is_first=sample.is_first):
        total += amounts(one, tiles)
    return total


def valid_range(samples: Sequence[Sample], rules: PassRules) -> ValidRange:
    """The largest of everything that was measured."""
    return ValidRange(
        rows=max(one.rows for sample in samples for one in split(sample.rows, rules)),
        sequences=max(len(sample.rows) for sample in samples),
        context=max(row.start + row.num_rows for sample in samples for row in sample.rows),
        pool=max(sample.pool + sum(row.num_rows for row in sample.rows) for sample in samples),
    )


def residuals(
    samples: Mapping[int, Sequence[Sample]], rules: PassRules, passes: Mapping[int, FittedPasses]
) -> tuple[Residuals, ...]:
    """Errors by number of threads, kind of step, and whether its shapes were fitted; the level is taken out."""
    found: list[Residuals] = []
    for threads, measured in sorted(samples.items()):
        groups = defaultdict[tuple[bool, StepKind], list[Sample]](list)
        for sample, level in zip(measured, passes[threads].level, strict=True):
            levelled = sample._replace(decode_us=sample.decode_us / float(level))
            groups[sample.probe.is_held_out, kind_of(sample.rows)].append(levelled)
        for (held_out, kind), members in sorted(groups.items()):
            shapes = list(_shapes(members, rules, passes[threads].costs))
            errors = np.array([shape.error for shape in shapes])
            sizes = np.abs(errors)
            found.append(
                Residuals(
                    threads=threads,
                    kind=kind,
                    held_out=held_out,
                    num_shapes=len(shapes),
                    num_samples=len(members),
                    bias=_digits(np.median(errors)),
                    typical=_digits(np.median(sizes)),
                    p90=_digits(np.quantile(sizes, 0.9)),
                    worst=_digits(sizes.max()),
                    noise=_digits(np.median([shape.spread for shape in shapes])),
                    outliers=_digits(sum(shape.num_outliers for shape in shapes) / len(members)),
                )
            )
    return tuple(found)


class _Shape(NamedTuple):
    """The visits of one shape."""

    error: float  # of the prediction of its median
    spread: float  # median absolute deviation / median
    num_outliers: int


def _shape_of(sample: Sample) -> tuple[str, bool]:
    """Steps of one shape; those of a burst differ by a position or two, and the first of them builds a graph."""
    return sample.probe.name, sample.is_first


def _shapes(samples: Sequence[Sample], rules: PassRules, costs: PassCosts) -> Iterator[_Shape]:
    times = defaultdict[tuple[str, bool], list[float]](list)
    predicted: dict[tuple[str, bool], float] = {}
    for sample in samples:
        shape = _shape_of(sample)
        times[shape].append(sample.decode_us)
        if shape not in predicted:
            predicted[shape] = float(np.dot(step_amounts(sample, rules, costs.tiles), costs.values))
    for shape, measured in times.items():
        took = np.array(measured)
        middle = max(float(np.median(took)), 1e-3)
        yield _Shape(
            error=middle / max(predicted[shape], 1e-3) - 1,
            spread=float(np.median(np.abs(took - middle))) / middle,
            num_outliers=int((took > OUTLIER * middle).sum()),
        )


def _digits(value: float | np.floating) -> float:
    return float(f"{float(value):.4g}")
