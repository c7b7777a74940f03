"""Series: what a figure draws, as plain arrays, and how much of the data it draws.

Nothing is dropped in silence. A curve over time that has more stretches than a figure can show becomes equal bins, each
with the mean over its time and the highest value in it. A distribution that has more samples than it can show keeps
samples only, evenly over the ranks and closely at both ends. Both say how many of how many they draw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from arriero.report.columns import Floats, StepColumns, Whole


class Detail(NamedTuple):
    """How much figures draw, so that a page of many runs stays small."""

    num_bins: int  # of a curve over time that has more than twice as many stretches
    num_points: int  # of a distribution; a multiple of 4
    num_bars: int  # of a Gantt

    @property
    def max_stretches(self) -> int:
        """More than these are binned."""
        return 2 * self.num_bins


FULL: Final = Detail(600, 320, 64)
_LESS: Final = ((4, FULL), (10, Detail(300, 160, 40)))
_LEAST: Final = Detail(150, 80, 24)


def detail_for(num_results: int) -> Detail:
    """What a page of so many results can hold in about 3 MB."""
    return next((detail for most, detail in _LESS if num_results <= most), _LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """A value that stays until the next edge.

    Attributes:
        edges: float64[n + 1], microseconds, ascending.
        values: float64[n]; of a bin the mean over its time.
        peaks: float64[n], the highest value in each bin; None where every stretch is drawn as it was.
        num_drawn_from: how many stretches there were before.
    """

    edges: Floats
    values: Floats
    peaks: Floats | None
    num_drawn_from: int

    @property
    def highest(self) -> float:
        """The highest value that is drawn; 0 without any."""
        drawn = self.values if self.peaks is None else self.peaks
        return float(drawn.max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdf:
    """Which share of the samples is at most so large.

    Attributes:
        at: float64[n], ascending; each is a sample.
        shares: float64[n], up to and including it, of all samples and those that never came.
        num_samples: all of them.
        is_thinned: whether some are left out.
        num_censored: requests whose value would be larger than every sample.
    """

    at: Floats
    shares: Floats
    num_samples: int
    is_thinned: bool
    num_censored: int = 0


# ── over time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def steps_over_time(
    steps: StepColumns, names: Sequence[str], span: tuple[float, float], detail: Detail = FULL
) -> dict[str, Stretches]:
    """Values that hold while a step runs and are 0 between steps, such as its rows.

    Steps that take no time have no width, and are seen in no curve over time.
    """
    return {name: _stretches(steps.began_at, steps.ended_at, steps.values[name], span, detail) for name in names}


def held_over_time(steps: StepColumns, name: str, span: tuple[float, float], detail: Detail = FULL) -> Stretches:
    """A value taken after each step that holds until the end of the next one, such as the places held in KV."""
    until = np.append(steps.ended_at[1:], max(span[1], steps.ended_at[-1]))
    return _stretches(steps.ended_at, until, steps.values[name], span, detail)


def count_over_time(begins: Floats, ends: Floats, span: tuple[float, float], detail: Detail = FULL) -> Stretches:
    """How many stays there are at each moment.

    Args:
        begins: of each stay; NaN for one that never began.
        ends: of each stay; NaN for one that lasts.
        span: from and until.
        detail: how much is drawn.
    """
    began = begins[~np.isnan(begins)]
    ended = ends[~np.isnan(begins) & ~np.isnan(ends)]
    at = np.concatenate([began, ended])
    change = np.concatenate([np.ones(len(began), dtype=np.int64), -np.ones(len(ended), dtype=np.int64)])
    order = np.argsort(at, kind="stable")
    moments, first = np.unique(at[order], return_index=True)
    if not len(moments):
        return Stretches(edges=np.array(span), values=np.zeros(1), peaks=None, num_drawn_from=0)
    depth = np.add.reduceat(change[order], first).cumsum()
    return _stretches(moments, np.append(moments[1:], max(span[1], moments[-1])), depth, span, detail)


def _stretches(begins: Floats, ends: Floats, values: Whole, span: tuple[float, float], detail: Detail) -> Stretches:
    has_width = ends > begins
    begins, ends, values = begins[has_width], ends[has_width], values[has_width]
    if len(begins) <= detail.max_stretches:
        return _exact(begins, ends, values, span)
    edges = np.linspace(*span, detail.num_bins + 1)
    return Stretches(
        edges=edges,
        values=_means(begins, ends, values, edges),
        peaks=_peaks(begins, ends, values, edges),
        num_drawn_from=len(begins),
    )


def _exact(begins: Floats, ends: Floats, values: Whole, span: tuple[float, float]) -> Stretches:
    """Every stretch, and a stretch of 0 wherever there is none."""
    edges: list[float] = [span[0]]
    found: list[float] = []
    for begin, end, value in zip(begins.tolist(), ends.tolist(), values.tolist(), strict=True):
        if begin > edges[-1]:
            edges.append(begin)
            found.append(0.0)
        edges.append(end)
        found.append(float(value))
    if span[1] > edges[-1] or not found:
        edges.append(max(span[1], edges[-1]))
        found.append(0.0)
    return Stretches(edges=np.array(edges), values=np.array(found), peaks=None, num_drawn_from=len(begins))


def _means(begins: Floats, ends: Floats, values: Whole, edges: Floats) -> Floats:
    """The integral of the value over each bin, divided by its width."""
    areas = np.cumsum((ends - begins) * values)
    knots = np.column_stack([begins, ends]).ravel()
    integral = np.column_stack([np.concatenate([[0.0], areas[:-1]]), areas]).ravel()
    reached: Floats = np.interp(edges, knots, integral)
    means: Floats = np.diff(reached) / np.diff(edges)
    return means


def _peaks(begins: Floats, ends: Floats, values: Whole, edges: Floats) -> Floats:
    """The highest value of the stretches that reach into each bin; 0 where none does."""
    first = np.searchsorted(ends, edges[:-1], side="right")
    after = np.searchsorted(begins, edges[1:], side="left")
    found = np.zeros(len(edges) - 1)
    for index, (low, high) in enumerate(zip(first.tolist(), after.tolist(), strict=True)):
        if high > low:
            found[index] = values[low:high].max()
    return found


# ── distributions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def cdf(samples: Floats, *, num_censored: int = 0, detail: Detail = FULL) -> Cdf | None:
    """Of samples in any order, NaN left out; None without a sample."""
    ordered = np.sort(samples[~np.isnan(samples)])
    count = len(ordered)
    if not count:
        return None
    ranks = _ranks(count, detail.num_points)
    return Cdf(
        at=ordered[ranks - 1],
        shares=ranks / (count + num_censored),
        num_samples=count,
        is_thinned=len(ranks) < count,
        num_censored=num_censored,
    )


def cdf_of_counts(counts: Mapping[int, int], *, detail: Detail = FULL) -> Cdf | None:
    """Of values that stand for so many samples each; None without any."""
    if not counts:
        return None
    ordered = sorted(counts)
    at = np.array(ordered, dtype=np.float64)
    passed = np.cumsum([counts[value] for value in ordered])
    total = int(passed[-1])
    kept = np.arange(len(at))
    if len(at) > detail.num_points:
        kept = np.unique(np.searchsorted(passed, np.append(_spread_ranks(total, detail.num_points), total)))
    return Cdf(at=at[kept], shares=passed[kept] / total, num_samples=total, is_thinned=len(kept) < len(at))


def _ranks(count: int, num_points: int) -> Whole:
    """Which of so many ascending samples are drawn, counted from 1: all of them, or up to `num_points`."""
    if count <= num_points:
        return np.arange(1, count + 1)
    return np.unique(_spread_ranks(count, num_points).astype(np.int64))


def _spread_ranks(total: float, num_points: int) -> Floats:
    """So many ranks from 1 to the total: half of them even, and at each end a quarter that come ever closer to it."""
    even = np.linspace(1, total, num_points // 2)
    ends = np.geomspace(1, max(1.0, total / 2), num_points // 4)
    return np.concatenate([even, ends, total + 1 - ends]).round()
