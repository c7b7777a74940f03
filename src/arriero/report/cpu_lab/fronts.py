"""Fronts: what each model file is among those of its workload, with the repetitions that this rests on."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from arriero.metrics.spread import Spread
from arriero.metrics.standings import Offer, Standing, offer_standings
from arriero.record.cpu_lab.analysis import Formats, ParetoPoint
from arriero.record.cpu_lab.run_key import MODEL_FIELDS, without

FRONT_WORDS: Final = (
    "A file is beaten only if another one is no larger, its slowest repetition is no slower than the fastest of this "
    "one, its KL divergence (where all files have one) is no higher even by the ends of the intervals, and one of "
    "these differs. Where ranges overlap, the file is not resolved: neither beaten nor surely on the front. A file "
    "that was measured once has no range, so its speed resolves nothing."
)
BARGAIN_WORDS: Final = (
    "Mean and range of the repetitions. Filled: on the front; half filled: not resolved, another file may be as good "
    "in all of it; hollow: beaten, another file is as good in all of it beyond the spread."
)


class Placed(NamedTuple):
    """One file at one workload."""

    point: ParetoPoint
    rate: Spread  # tokens/s
    standing: Standing


def placed(formats: Formats) -> tuple[Placed, ...]:
    """Every point of the fronts with its standing, in the order of the analysis."""
    by_front: dict[tuple[object, ...], list[ParetoPoint]] = {}
    for point in formats.pareto:
        by_front.setdefault((point.phase, *without(point.key, MODEL_FIELDS)), []).append(point)
    return tuple(each for members in by_front.values() for each in _front(members, formats))


def _front(members: list[ParetoPoint], formats: Formats) -> Iterator[Placed]:
    groups = {cell.group.key: cell.group for cell in formats.cells}
    highs = {file.sha256: None if file.quality is None else file.quality.kl_high for file in formats.files}
    offers: list[Offer] = []
    for point in members:
        rate = groups[point.key].rate(point.phase)
        assert rate is not None, "a point stands for a rate"
        offers.append(Offer(point.num_bytes, rate, point.kl_mean, highs.get(point.key.model_sha256)))
    for point, offer, standing in zip(members, offers, offer_standings(offers), strict=True):
        yield Placed(point, offer.rate, standing)
