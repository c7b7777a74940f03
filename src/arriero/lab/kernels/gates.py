"""Gates of correctness: comparisons of results that a candidate must pass before anything is timed."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arriero.lab.kernels.reference import Double, Single
from arriero.record.cpu_lab.kernels import GateRow


class ErrorFigures(NamedTuple):
    """How far results are from the exact ones."""

    cases: int  # compared: results and exact sums that are finite
    worst: float  # largest error
    share_of_bound: float  # largest error / bound
    outside: int  # cases beyond the bound


def same_bits(found: Single, expected: Single) -> NDArray[np.bool_]:
    """Where both have equal bits, or are both NaN: which NaN it is has no meaning."""
    equal: NDArray[np.bool_] = found.view(np.uint32) == expected.view(np.uint32)
    return equal | (np.isnan(found) & np.isnan(expected))


def bits_gate(name: str, found: Single, expected: Single, what: str) -> GateRow:
    """Equal bits everywhere.

    Args:
        name: of the gate.
        found: by the candidate.
        expected: of the same shape.
        what: is compared, in words.
    """
    equal = same_bits(found, expected)
    if equal.all():
        return GateRow(name=name, passed=True, says=f"{what}: {equal.size:,} results, all bits equal")
    first: tuple[Any, ...] = np.unravel_index(int(np.argmin(equal)), equal.shape)
    place = ", ".join(str(int(index)) for index in first)
    values = f"{float(found[first])!r} instead of {float(expected[first])!r}"
    says = f"{what}: {int((~equal).sum()):,} of {equal.size:,} results differ, the first at [{place}]: {values}"
    return GateRow(name=name, passed=False, says=says)


def error_figures(found: Single, exact: Double, bound: Double) -> ErrorFigures:
    """Errors against a double-precision reference, where the exact sum is within single precision.

    A result that is not finite though the exact sum is counts as outside.
    """
    limits = np.finfo(np.float32)
    is_usable = np.isfinite(exact) & (np.abs(exact) < float(limits.max)) & np.isfinite(bound)
    with np.errstate(invalid="ignore"):
        errors = np.abs(found.astype(np.float64) - exact)
    errors = np.where(np.isnan(errors), np.inf, errors)[is_usable]
    bounds = bound[is_usable]
    if not errors.size:
        return ErrorFigures(0, 0.0, 0.0, 0)
    # an exact zero has a bound of almost nothing, and an error of nothing
    shares = errors / np.maximum(bounds, np.finfo(np.float64).tiny)
    return ErrorFigures(errors.size, float(errors.max()), float(shares.max()), int((errors > bounds).sum()))


def error_gate(name: str, found: Single, exact: Double, bound: Double, rule: str) -> GateRow:
    """No error beyond its bound, and at least one case that could have one.

    Args:
        name: of the gate.
        found: by the candidate.
        exact: in double precision.
        bound: of each error.
        rule: the bound in words.
    """
    figures = error_figures(found, exact, bound)
    if not figures.cases:
        return GateRow(name=name, passed=False, says="no case has a finite exact result: nothing was compared")
    says = (
        f"{figures.cases:,} results against double precision, bound {rule}: largest error {figures.worst:.3g}, "
        f"{100 * figures.share_of_bound:.3g} % of its bound at the worst"
    )
    if figures.outside:
        says = f"{says}; {figures.outside:,} beyond it"
    return GateRow(name=name, passed=not figures.outside, says=says)
