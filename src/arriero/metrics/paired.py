"""Two sides measured in interleaved pairs, and what may be said of them.

The statistic is the median over pairs of b / a. "Better" and "worse" are said only if 1 lies outside of both intervals
of `paired_figures.py`, and the median outside of the noise floor of an A/A run. So the share of wrong verdicts on
identical sides is at most 1 - confidence, whatever the noise looks like. A drift that is linear in time moves the
ratios of AB pairs one way and those of BA pairs the other, so it makes the verdict harder to reach and not wrong.

Samples that are still warming up, jump between two levels, or were run one side after the other give no verdict at all:
no interval describes what such a run would do next time.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from arriero.metrics.drift import Drift, TwoModes, drift, two_modes
from arriero.metrics.paired_figures import (
    Interval,
    band,
    fewest_pairs,
    half_medians,
    median_interval,
    order_interval,
    side_figures,
    sign_p_value,
)
from arriero.metrics.paired_order import JudgedOrder, OrderKind, judge_order
from arriero.metrics.paired_verdict import NoiseFloor, PairedVerdict, Verdict
from arriero.metrics.quantiles import interpolated

RESAMPLES: Final = 10_000


class _Rules(NamedTuple):
    floor: float | None
    margin: float | None
    confidence: float
    higher_is_better: bool
    order: str | None
    seed: int
    resamples: int


class _Series(NamedTuple):
    """What the values look like in the order of time."""

    drift_a: Drift
    drift_b: Drift
    drift_ratio: Drift
    modes_a: TwoModes
    modes_b: TwoModes


class _Ratios(NamedTuple):
    median: float
    bootstrap: Interval
    exact: Interval | None


def compare_pairs(
    pairs: Sequence[tuple[float, float]],
    *,
    floor: float | None,
    seed: int,
    higher_is_better: bool,
    confidence: float = 0.95,
    margin: float | None = None,
    order: str | None = None,
    resamples: int = RESAMPLES,
) -> PairedVerdict:
    """The verdict on B against A.

    Args:
        pairs: (a, b) of each pair, in the order of running.
        floor: `noise_floor(...).value` of an A/A run; None if there was none.
        seed: of the bootstrap.
        higher_is_better: throughputs yes, latencies no.
        confidence: of the interval; 1 - confidence is the stated error rate.
        margin: the smallest difference that matters, relative; stated before the run.
        order: sides in the order of running, two letters a pair, such as `ABBA`.
        resamples: of the bootstrap.

    Raises:
        ValueError: an order of another length, or a bound out of range.
    """
    _check(floor, margin, confidence)
    if order is not None and len(order) != 2 * len(pairs):
        raise ValueError(f"order {order!r} has {len(order)} runs, but {len(pairs)} pairs have {2 * len(pairs)}")
    rules = _Rules(floor, margin, confidence, higher_is_better, order, seed, resamples)
    return _judged(pairs, [(a, b) for a, b in pairs if _has_ratio(a, b)], rules)


def noise_floor(
    aa_pairs: Sequence[tuple[float, float]], *, seed: int, confidence: float = 0.95, resamples: int = RESAMPLES
) -> NoiseFloor:
    """The noise floor from pairs of two identical sides: the interval of their median ratio, taken both ways.

    Below the pairs that an interval needs, the least and the greatest ratio stand for it.

    Raises:
        ValueError: no pair has a ratio.
    """
    usable = [(a, b) for a, b in aa_pairs if _has_ratio(a, b)]
    if not usable:
        raise ValueError("no A/A pair has two finite values above 0; measure again")
    ratios = [b / a for a, b in usable]
    found = _ratios(ratios, seed, resamples, confidence)
    interval = Interval(min(ratios), max(ratios)) if found.exact is None else found.bootstrap.joined(found.exact)
    flags = [f"{len(aa_pairs) - len(usable)} A/A pairs have no ratio and are left out"] * (len(usable) < len(aa_pairs))
    if found.exact is None:
        few = f"{len(usable)} A/A pairs are too few for an interval: the floor is their whole range"
        flags.append(few)
    elif interval.low > 1 or interval.high < 1:
        flags.append("two identical sides differ: something favours one of the two places of a pair")
    flags.extend(_unsteady(_series(usable, ratios, seed), JudgedOrder(OrderKind.UNKNOWN, "")))
    return NoiseFloor(
        value=max(interval.high, 1 / interval.low) - 1,
        low=interval.low,
        high=interval.high,
        num_pairs=len(usable),
        flags=tuple(flags),
    )


def _judged(
    pairs: Sequence[tuple[float, float]], usable: Sequence[tuple[float, float]], rules: _Rules
) -> PairedVerdict:
    ratios = [b / a for a, b in usable]
    judged = judge_order(rules.order)
    series = _series(usable, ratios, rules.seed)
    found = _ratios(ratios, rules.seed, rules.resamples, rules.confidence) if ratios else None
    refusals = (*_refusals(pairs, judged, rules.confidence), *_unsteady(series, judged))
    verdict, reasons = (Verdict.NO_VERDICT, refusals) if refusals or found is None else _verdict(found, rules)
    above, below = sum(ratio > 1 for ratio in ratios), sum(ratio < 1 for ratio in ratios)
    bootstrap, exact = (None, None) if found is None else (found.bootstrap, found.exact)
    return PairedVerdict(
        verdict=verdict,
        reasons=reasons,
        flags=_flags(judged, rules, series),
        num_pairs=len(pairs),
        median_ratio=None if found is None else found.median,
        low=None if bootstrap is None else bootstrap.low,
        high=None if bootstrap is None else bootstrap.high,
        exact_low=None if exact is None else exact.low,
        exact_high=None if exact is None else exact.high,
        confidence=rules.confidence,
        higher_is_better=rules.higher_is_better,
        floor=rules.floor,
        margin=rules.margin,
        sign_p_value=sign_p_value(above, below) if ratios else None,
        above=above,
        below=below,
        equal=len(ratios) - above - below,
        a=side_figures([a for a, _ in usable]) if usable else None,
        b=side_figures([b for _, b in usable]) if usable else None,
        ratios=side_figures(ratios) if usable else None,
        half_medians=half_medians(ratios),
        order=rules.order,
        discard=max(_early(series.drift_a), _early(series.drift_b)),
        drift_a=series.drift_a,
        drift_b=series.drift_b,
        drift_ratio=series.drift_ratio,
        modes_a=series.modes_a,
        modes_b=series.modes_b,
        seed=rules.seed,
        resamples=rules.resamples,
    )


def _check(floor: float | None, margin: float | None, confidence: float) -> None:
    for name, width in (("floor", floor), ("margin", margin)):
        if width is not None and not (math.isfinite(width) and width >= 0):
            raise ValueError(f"{name} {width}: a relative difference of at least 0")
    if not 0.5 <= confidence < 1:
        raise ValueError(f"confidence {confidence}: at least 0.5 and below 1")


def _has_ratio(a: float, b: float) -> bool:
    return math.isfinite(a) and math.isfinite(b) and a > 0 and b > 0


def _series(pairs: Sequence[tuple[float, float]], ratios: Sequence[float], seed: int) -> _Series:
    a, b = [a for a, _ in pairs], [b for _, b in pairs]
    return _Series(
        drift_a=drift(a, seed=seed),
        drift_b=drift(b, seed=seed),
        drift_ratio=drift(ratios, seed=seed),
        modes_a=two_modes(a, seed=seed),
        modes_b=two_modes(b, seed=seed),
    )


def _ratios(ratios: Sequence[float], seed: int, resamples: int, confidence: float) -> _Ratios:
    return _Ratios(
        median=interpolated(ratios, 50),
        bootstrap=median_interval(ratios, seed=seed, resamples=resamples, confidence=confidence),
        exact=order_interval(ratios, confidence),
    )


# ── what forbids a verdict, and what has to be said beside one ──────────────────────────────────────────────────────


def _refusals(pairs: Sequence[tuple[float, float]], judged: JudgedOrder, confidence: float) -> Iterator[str]:
    if judged.kind is OrderKind.SEQUENTIAL:
        yield judged.words
    for number, (a, b) in enumerate(pairs, start=1):
        if not _has_ratio(a, b):
            yield f"pair {number} has no ratio ({a:g} and {b:g}): both values have to be finite and above 0"
    fewest = fewest_pairs(confidence)
    if len(pairs) < fewest:
        yield f"{len(pairs)} pairs: at {confidence:.0%} no fewer than {fewest} can decide anything"


def _unsteady(series: _Series, judged: JudgedOrder) -> Iterator[str]:
    for side, modes, moved in (("A", series.modes_a, series.drift_a), ("B", series.modes_b, series.drift_b)):
        if modes.found and modes.num_switches > 1:
            yield f"{side}: {modes.words}"
        elif moved.found and moved.is_warm_up:
            yield f"{side}: {moved.words}"
        elif modes.found:
            yield f"{side}: {modes.words}; warm up longer"
        elif moved.found and judged.kind is not OrderKind.INTERLEAVED:
            yield f"{side}: {moved.words}"
    if series.drift_ratio.found:
        yield f"b / a: {series.drift_ratio.words}"


def _flags(judged: JudgedOrder, rules: _Rules, series: _Series) -> tuple[str, ...]:
    flags = [judged.words] if judged.words else []
    if rules.floor is None:
        flags.append("no A/A run: the noise floor is not known")
    elif rules.margin is not None and rules.margin < rules.floor:
        flags.append(f"the margin of {rules.margin:.2%} lies within the noise floor of {rules.floor:.2%}")
    for side, moved in (("A", series.drift_a), ("B", series.drift_b)):
        if moved.found and not moved.is_warm_up:
            flags.append(f"{side}: {moved.words}")
    return tuple(flags)


def _early(moved: Drift) -> int:
    return moved.num_early if moved.found and moved.is_warm_up and moved.rest_is_steady else 0


# ── the verdict ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(found: _Ratios, rules: _Rules) -> tuple[Verdict, tuple[str, ...]]:
    assert found.exact is not None, "fewer pairs were refused"
    interval = found.bootstrap.joined(found.exact)
    words = (
        f"median ratio {found.median:.4f}, {rules.confidence:.0%} interval {interval.low:.4f} to {interval.high:.4f}"
    )
    is_noise = rules.floor is not None and Interval(found.median, found.median).lies_within(band(rules.floor))
    if (interval.low > 1 or interval.high < 1) and not is_noise:
        is_better = (found.median > 1) == rules.higher_is_better
        return (Verdict.BETTER if is_better else Verdict.WORSE), (words, *_small(found.median, rules.margin))
    margin = rules.margin
    if margin is not None and interval.lies_within(band(margin)) and (rules.floor or 0) <= margin:
        return Verdict.NO_LARGER_DIFFERENCE, (f"{words}: no difference larger than {margin:.2%}",)
    if is_noise:
        return Verdict.NOT_RESOLVED, (f"{words}: within the noise floor of {rules.floor:.2%}",)
    return Verdict.NOT_RESOLVED, (f"{words}: it holds 1",)


def _small(median: float, margin: float | None) -> tuple[str, ...]:
    if margin is None or not Interval(median, median).lies_within(band(margin)):
        return ()
    return (f"the difference is smaller than the {margin:.2%} that were said to matter",)
