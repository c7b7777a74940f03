"""Least squares with coefficients that are not negative, and a robust form of it."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TOLERANCE: Final = 1e-10
_ROUNDS: Final = 30
_LEAST_ERROR: Final = 1e-3  # of a prediction: no clock tells smaller ones apart
_TO_SIGMA: Final = 1.4826  # of a normal distribution, from the median of its absolute deviations
_BISQUARE: Final = 4.685
_SETTLED: Final = 1e-6


def solve_nonnegative(matrix: Floats, target: Floats) -> Floats:
    """The x >= 0 for which |matrix x - target| is smallest.

    Args:
        matrix: float64[num_equations, num_unknowns]; a column of zeros gives 0.
        target: float64[num_equations].

    Works on the products of the columns, which are few, so that the number of equations counts once. Cost: about
    num_unknowns solutions of a small system. Source: Lawson and Hanson, Solving Least Squares Problems, chapter 23.
    """
    norms: Floats = np.linalg.norm(matrix, axis=0)
    scaled: Floats = matrix / np.where(norms > 0, norms, 1.0)
    products, wanted = scaled.T @ scaled, scaled.T @ target
    found = np.zeros(len(norms))
    is_free = np.zeros(len(norms), dtype=bool)
    for _ in range(3 * len(norms)):
        slope: Floats = np.where(is_free | (norms == 0), -np.inf, wanted - products @ found)
        best = int(slope.argmax())
        if slope[best] <= _TOLERANCE * float(np.abs(wanted).max()):
            break
        is_free[best] = True
        found = _settle(products, wanted, found, is_free)
    unscaled: Floats = found / np.where(norms > 0, norms, 1.0)
    return unscaled


def solve_robust(matrix: Floats, target: Floats, weights: Floats) -> Floats:
    """As above for relative errors, with little regard for the few equations that fit least.

    First least absolute errors, which a tenth of wrong values cannot move far, wherever they lie; then Tukey's
    bisquare, for which what lies beyond some five usual errors does not exist.

    Args:
        matrix: float64[num_equations, num_unknowns], not negative.
        target: float64[num_equations], positive.
        weights: float64[num_equations]: how much each equation counts.
    """
    found = solve_nonnegative(matrix / target[:, None] * weights[:, None], weights)
    for is_last in (False, True):
        for _ in range(_ROUNDS):
            # relative to the prediction: a time that is ten times too long must not weigh less for being long
            predicted = np.maximum(matrix @ found, target * 1e-3)
            errors = np.abs(target - predicted) / predicted
            influence = _bisquare(errors, weights) if is_last else 1 / np.maximum(errors, _LEAST_ERROR)
            roots = np.sqrt(influence) * weights / predicted
            before, found = found, solve_nonnegative(matrix * roots[:, None], target * roots)
            if np.abs(matrix @ (found - before)).max(initial=0) <= _SETTLED * float(target.min(initial=1.0)):
                break
    return found


def weighted_median(values: Floats, weights: Floats) -> float:
    """The value below which half of the weight lies."""
    order = np.argsort(values)
    reached: Floats = np.cumsum(weights[order])
    return float(values[order][np.count_nonzero(reached < float(reached[-1]) / 2)])


def _bisquare(errors: Floats, weights: Floats) -> Floats:
    usual = max(_LEAST_ERROR, _TO_SIGMA * weighted_median(errors, weights**2))
    within: Floats = np.minimum(errors / (_BISQUARE * usual), 1.0)
    influence: Floats = (1 - within**2) ** 2
    return influence


def _settle(products: Floats, wanted: Floats, found: Floats, is_free: NDArray[np.bool_]) -> Floats:
    """The best over the free unknowns; those that would be negative are fixed at 0 again, in `is_free` too."""
    while is_free.any():
        best = np.zeros_like(found)
        best[is_free] = np.linalg.lstsq(products[np.ix_(is_free, is_free)], wanted[is_free], rcond=None)[0]
        is_low = is_free & (best <= 0)
        if not is_low.any():
            return best
        gaps: Floats = found[is_low] - best[is_low]
        parts: Floats = found[is_low] / np.where(gaps > 0, gaps, 1.0)
        found = np.where(is_free, found + float(parts.min()) * (best - found), 0.0)
        is_free &= found > _TOLERANCE * max(1.0, float(found.max()))
        found = np.where(is_free, found, 0.0)
    return found
