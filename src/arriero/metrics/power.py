"""What a paired comparison can resolve: the smallest effect that n pairs show, and the pairs that an effect needs.

The spread comes from an A/A run: the standard deviation s of the logarithm of its ratios. A verdict needs the interval
between order statistics above 1 and the median above the noise floor. Under a normal spread both are order statistics
of n normal values, moved by the effect; some thousand draws of them, with a seed, give the effect at which a stated
share is resolved. They are drawn as such (from gamma variates) and not by sorting n values, so n may be large.

The normal spread is an assumption, and s of few A/A pairs is itself uncertain: `sd_range` says how much.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arriero.metrics.paired_figures import Interval

POWER: Final = 0.8
MOST_PAIRS: Final = 4_096
_MEDIAN: Final = math.sqrt(math.pi / 2)  # sd of the median / sd of the mean, of many normal values
_NORMAL: Final = NormalDist()
_DRAWS: Final = 4_000
_SEED: Final = 1
_EXACT: Final = 1_000  # pairs up to which the binomial is summed

_Floats: TypeAlias = NDArray[np.float64]


class PairsNeeded(NamedTuple):
    """How many pairs, and as many A/A pairs, resolve an effect."""

    pairs: int | None  # None: more than `MOST_PAIRS`
    least: int | None  # with the lower end of the spread's own interval
    most: int | None  # with its upper end; None as above


def log_spread(aa_pairs: Sequence[tuple[float, float]]) -> float | None:
    """Standard deviation of log(b / a) around 0, where two equal sides are; None below two usable pairs."""
    logs = [math.log(b / a) for a, b in aa_pairs if a > 0 and b > 0 and math.isfinite(b / a)]
    return math.sqrt(math.fsum(each * each for each in logs) / len(logs)) if len(logs) > 1 else None


def sd_range(spread: float, num_pairs: int, confidence: float = 0.95) -> Interval:
    """Where the true spread lies: chi-square over `num_pairs` degrees of freedom, by Wilson and Hilferty (1931)."""
    distance = _NORMAL.inv_cdf((1 + confidence) / 2)
    ends = [_chi_square(num_pairs, distance), _chi_square(num_pairs, -distance)]
    low, high = (spread * math.sqrt(num_pairs / end) if end > 0 else math.inf for end in ends)
    return Interval(low, high)


def smallest_effect(
    num_pairs: int, spread: float, *, floor: float | None, confidence: float = 0.95, power: float = POWER
) -> float | None:
    """The smallest relative difference that is resolved with a chance of `power`; None if no difference is.

    Args:
        num_pairs: of the comparison.
        spread: of the logarithm of a ratio, see `log_spread`.
        floor: relative noise floor; None leaves it out.
        confidence: of the interval.
        power: see above.
    """
    depth = _depth(num_pairs, confidence)
    if depth == 0:
        return None
    lows, medians = _order_statistics(num_pairs, depth)
    needed = -lows * spread
    if floor is not None:
        needed = np.maximum(needed, math.log1p(floor) - medians * spread)
    return math.expm1(float(np.quantile(needed, power)))


def pairs_needed(
    effect: float, spread: float, num_aa_pairs: int, *, confidence: float = 0.95, power: float = POWER
) -> PairsNeeded:
    """The fewest pairs, after as many A/A pairs, that resolve a relative difference.

    Args:
        effect: above 0.
        spread: as measured by `num_aa_pairs` A/A pairs.
        num_aa_pairs: see there.
        confidence: of the interval.
        power: chance to resolve it.
    """
    around = sd_range(spread, num_aa_pairs)
    found = [_fewest(effect, each, confidence, power) for each in (spread, around.low, around.high)]
    return PairsNeeded(found[0], found[1], found[2])


def expected_floor(num_pairs: int, spread: float, confidence: float) -> float:
    """The noise floor that so many A/A pairs give on average: half an interval, and its middle off 1 by chance."""
    scatter = _MEDIAN * spread / math.sqrt(num_pairs)
    return math.expm1((_NORMAL.inv_cdf((1 + confidence) / 2) + math.sqrt(2 / math.pi)) * scatter)


def _fewest(effect: float, spread: float, confidence: float, power: float) -> int | None:
    """By bisection: more pairs need a smaller effect, but for a wiggle of one or two pairs of the binomial."""

    def resolves(count: int) -> bool:
        floor = expected_floor(count, spread, confidence)
        least = smallest_effect(count, spread, floor=floor, confidence=confidence, power=power)
        return least is not None and least <= effect

    if not math.isfinite(spread) or not resolves(MOST_PAIRS):
        return None
    low, high = 0, MOST_PAIRS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if resolves(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def _order_statistics(count: int, depth: int) -> tuple[_Floats, _Floats]:
    """The `depth`-th smallest and the median of `count` standard normal values, float64[_DRAWS] each."""
    rng = np.random.default_rng(_SEED)
    middle = (count + 1) // 2
    gaps = [rng.gamma(shape, size=_DRAWS) for shape in (depth, middle - depth, 1, count - middle)]
    total = sum(gaps[1:], gaps[0])
    low, first, second = gaps[0] / total, (gaps[0] + gaps[1]) / total, (gaps[0] + gaps[1] + gaps[2]) / total
    medians = _normal(first) if count % 2 else (_normal(first) + _normal(second)) / 2
    return _normal(low), medians


def _normal(chances: _Floats) -> _Floats:
    """Standard normal values with these chances to lie below them."""
    return np.array([_NORMAL.inv_cdf(chance) for chance in np.clip(chances, 1e-300, 1 - 1e-16).tolist()])


def _depth(count: int, confidence: float) -> int:
    """The interval between order statistics begins at the so many-th smallest value; 0 where there is none."""
    if count > _EXACT:  # the normal limit of the same
        return math.floor(count / 2 + _NORMAL.inv_cdf((1 - confidence) / 2) * math.sqrt(count) / 2 + 0.5)
    depth, tail = 0, math.comb(count, 0)
    while 2 * tail <= (1 - confidence) * (1 << count):
        depth += 1
        tail += math.comb(count, depth)
    return depth


def _chi_square(freedom: int, distance: float) -> float:
    """A quantile, by the cube of a normal one."""
    part = 2 / (9 * freedom)
    return freedom * max(0.0, 1 - part + distance * math.sqrt(part)) ** 3
