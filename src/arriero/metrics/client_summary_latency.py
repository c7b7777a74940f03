"""The latency tables of a client's run: of the requests that ended normally, and of all."""

from collections.abc import Mapping, Sequence
from typing import Final

from arriero.metrics.client_distribution import Pool
from arriero.metrics.client_figures import Latencies, LatencyTable
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.definitions_parts import Definitions, PercentileRule

POOLED: Final = frozenset({"itl_ns", "icl_ns"})
"""Latencies with many samples a request: what a failed request did show counts, and then one infinite sample."""


def latencies(lives: Sequence[ClientLife], definitions: Definitions) -> Latencies:
    """Both tables of these requests; planned cancellations are in neither."""
    pools = {name: Pool() for name in definitions.latencies}
    for life in lives:
        if life.outcome.is_normal:
            for name, pool in pools.items():
                pool.add(definitions.samples(name, life))
    finished = _table(pools, definitions.rule)
    return Latencies(finished=finished, all=_with_failures(pools, lives, definitions))


def _with_failures(
    pools: Mapping[str, Pool], lives: Sequence[ClientLife], definitions: Definitions
) -> LatencyTable | None:
    if not definitions.has_failures:
        return None
    copies = {name: pool.copy() for name, pool in pools.items()}
    for life in lives:
        if not life.outcome.is_normal and life.outcome is not Outcome.CANCELLED_BY_CLIENT:
            _fail(copies, life, definitions)
    return _table(copies, PercentileRule.NEAREST_RANK)


def _table(pools: Mapping[str, Pool], rule: PercentileRule) -> LatencyTable:
    return LatencyTable(**{name: pool.describe(rule) for name, pool in pools.items()})


def _fail(pools: Mapping[str, Pool], life: ClientLife, definitions: Definitions) -> None:
    for name, pool in pools.items():
        if name in POOLED:
            pool.add_seen(definitions.samples(name, life))
        pool.fail()
