"""Capacity: which rate of requests a server sustains, by simulating the same requests faster and slower.

    saturation    the rate at which requests end when all of them are there from the start: more can never be served
    sustainable   the largest rate at which a share of the requests keeps every objective

Rates are tried in 64ths of the saturation rate, and found by halves. So a machine on which everything takes half as
long is asked at twice the rates, where every latency is half as long; whatever was sustained there is sustained here,
and a cheaper cost of the same kind never gives a lower rate.

The first tenth of a run is not judged: it finds an empty server. A rate above saturation is never called sustainable,
though a short run may survive it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from arriero.costmodel.models import CostModel
from arriero.metrics.client_figures import ClientSlos, ClientSummary
from arriero.metrics.client_summary import summarise
from arriero.metrics.client_window import client_window
from arriero.record.journal_setup import Setup
from arriero.scheduler.backlog import BacklogLimits
from arriero.sim.asked import Asked, at_once, at_rate
from arriero.sim.whatif import SimulatedLoad, simulate

STEPS: Final = 64
"""Rates that are told apart, up to saturation."""

_US_PER_S: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a server is asked for, and what counts as good enough.

    Attributes:
        asked: the requests; only their order and the pattern of their gaps matter, their rate is varied.
        slos: objectives of one request; at least one is set.
        share: of the submitted requests that must keep all of them, above 0 and at most 1.
        warm_up: share of the time of arrivals that is not judged at its beginning.
    """

    asked: tuple[Asked, ...]
    slos: ClientSlos
    share: float = 0.95
    warm_up: float = 0.1


class Tried(NamedTuple):
    """One rate that was simulated.

    Attributes:
        rate_per_s: of arrivals.
        attainment: share of the submitted requests that kept every objective; 0 where nobody was judged.
    """

    rate_per_s: float
    attainment: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """What was found.

    Attributes:
        saturation_per_s: requests a second when there is always another one.
        rate_per_s: the sustainable rate; 0 if not even the lowest was.
        attainment: at that rate; None without one.
        tried: every rate that was simulated, ascending.
    """

    saturation_per_s: float
    rate_per_s: float
    attainment: float | None
    tried: tuple[Tried, ...]

    @property
    def is_saturated(self) -> bool:
        """Whether the objectives hold up to saturation, so that the machine is the limit and not they."""
        return bool(self.tried) and self.rate_per_s == self.tried[-1].rate_per_s and self.rate_per_s > 0


def saturation(setup: Setup, cost: CostModel, asked: Sequence[Asked]) -> float:
    """Requests a second when all are there from the start; 0 if nothing was served."""
    load = simulate(setup, cost, at_once(asked))
    num_served = sum(life.outcome.is_normal for life in load.lives)
    return num_served * _US_PER_S / load.ended_at_us if load.ended_at_us else 0.0


def sustainable(setup: Setup, cost: CostModel, demand: Demand, door: BacklogLimits | None = None) -> Sustained:
    """The largest rate at which the demand is met; `door` bounds who may wait, None nobody.

    Raises:
        ConfigError: the requests have no rate, or the parts of the setup do not go together.
    """
    most = saturation(setup, cost, demand.asked)
    tried: dict[int, Tried] = {}

    def is_met(step: int) -> bool:
        rate = most * step / STEPS
        summary = judged(simulate(setup, cost, at_rate(demand.asked, rate), door=door), demand)
        attainment = attained(summary)
        tried[step] = Tried(rate, attainment)
        return attainment >= demand.share

    best = largest(is_met, STEPS) if most > 0 else 0
    return Sustained(
        saturation_per_s=most,
        rate_per_s=tried[best].rate_per_s if best else 0.0,
        attainment=tried[best].attainment if best else None,
        tried=tuple(tried[step] for step in sorted(tried)),
    )


def judged(load: SimulatedLoad, demand: Demand) -> ClientSummary:
    """All figures of a load, of the requests after the warm-up."""
    frame = client_window(load.lives)
    warm_up_ns = round((frame.stops_at - frame.starts_at) * demand.warm_up)
    return summarise(load.lives, window=client_window(load.lives, warm_up_ns=warm_up_ns), slos=demand.slos)


def attained(summary: ClientSummary) -> float:
    """The share of the submitted requests that kept every objective; 0 where nobody was judged."""
    attainment = summary.attainment
    return 0.0 if attainment is None or attainment.of_submitted is None else attainment.of_submitted


def largest(holds: Callable[[int], bool], most: int) -> int:
    """The number from 0 to `most` at which `holds` turns false, by halves; 0 if it never holds.

    The greatest is asked first. If it holds at some number and not above, as it should, this is that number; and where
    one predicate holds wherever another does, it finds no less.
    """
    if holds(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
