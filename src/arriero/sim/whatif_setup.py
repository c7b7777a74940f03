"""Another configuration of a recorded scheduler: its setup with some parts exchanged, the others as they were."""

from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from typing import Final

from msgspec.structs import replace

from arriero.core.errors import ConfigError
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.models import CostModel
from arriero.record.cost_parts import cost_from, cost_setup
from arriero.record.journal_setup import (
    CellsSetup,
    LowestFirstSetup,
    MemorySetup,
    PlacesSetup,
    PooledSetup,
    Setup,
    TargetSetup,
    policy_setup,
)
from arriero.scheduler.step_target import LEAST_ROWS
from arriero.sim.user_policy import policy_spec

_US_PER_S: Final = 1e6
_US_PER_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is exchanged; None leaves a part as it was. A limit of 0 takes the limit away.

    Attributes:
        policy: a word, or `module:Class`.
        ageing_s: of policies with levels of priority.
        rows_per_step: prompt rows of a step.
        rows_per_sequence: prompt rows of one request in a step.
        itl_target_ms: how long a step with decode rows may take; needs a calibrated cost.
        sequences: requests that run at once; each keeps the cells that one had, so memory grows with them, unless
            `ctx_size` says otherwise. In one pool memory stays as it was.
        ctx_size: cells of all sequences together.
    """

    policy: str | None = None
    ageing_s: float = 10.0
    rows_per_step: int | None = None
    rows_per_sequence: int | None = None
    itl_target_ms: float | None = None
    sequences: int | None = None
    ctx_size: int | None = None


def changed(setup: Setup, changes: Changes, cost: CostModel) -> Setup:
    """The setup with these changes.

    Args:
        setup: of a journal, or of an engine.
        changes: to make.
        cost: that steps are predicted with, where a target in milliseconds is asked for.

    Raises:
        ConfigError: a change does not go with the setup, or there is no such policy.
    """
    limits = replace(
        setup.limits,
        prefill_rows_per_step=_limit(changes.rows_per_step, setup.limits.prefill_rows_per_step),
        prefill_rows_per_seq=_limit(changes.rows_per_sequence, setup.limits.prefill_rows_per_seq),
    )
    if changes.itl_target_ms is not None:
        target = _target(changes.itl_target_ms, cost)
        known = cost_setup(cost) if isinstance(cost, CalibratedCost) else limits.cost
        limits = replace(limits, target=target, cost=known)
    policy = setup.policy
    if changes.policy is not None:
        policy = policy_setup(policy_spec(changes.policy, int(changes.ageing_s * _US_PER_S)).described())
    found = replace(setup, policy=policy, limits=limits)
    # preloaded requests have their own ids there, and nobody is preloaded here
    found = replace(found, ids=LowestFirstSetup()) if isinstance(setup.ids, PooledSetup) else found
    if changes.sequences is None and changes.ctx_size is None:
        return found
    return _with_memory(found, changes)


def recorded_cost(setup: Setup) -> CalibratedCost | None:
    """The cost that the recorded scheduler was given, or None."""
    return None if setup.limits.cost is None else cost_from(setup.limits.cost)


def cost_for(cost: CalibratedCost, setup: Setup) -> CalibratedCost:
    """The same machine with the memory of a setup, which decides how many cells are looked at."""
    kv = setup.kv
    if not isinstance(kv, CellsSetup):
        return cost
    stream = kv.num_cells if kv.unified else max(1, kv.num_cells // kv.num_sequences)
    return dataclass_replace(cost, rules=dataclass_replace(cost.rules, unified=kv.unified, stream_cells=stream))


def _limit(wanted: int | None, before: int | None) -> int | None:
    return before if wanted is None else wanted or None


def _target(milliseconds: float, cost: CostModel) -> TargetSetup | None:
    if not milliseconds:
        return None
    if not isinstance(cost, CalibratedCost):
        raise ConfigError(
            "--itl-target: rows that fit into milliseconds follow from a cost profile; give one with --profile"
        )
    return TargetSetup(limit=round(milliseconds * _US_PER_MS), least_rows=LEAST_ROWS)


def _with_memory(setup: Setup, changes: Changes) -> Setup:
    kv = setup.kv
    match kv:
        case CellsSetup():
            running = setup.rules.most_running
            num_running = kv.num_sequences if running is None else running
            wanted = changes.sequences or num_running
            ids = wanted + kv.num_sequences - num_running
            memory: MemorySetup = _cells(kv, ids, changes.ctx_size)
            rules = setup.rules if running is None else replace(setup.rules, most_running=wanted)
            if wanted > setup.limits.num_rows:
                raise ConfigError(f"--sequences {wanted}: each needs a row, and a step has {setup.limits.num_rows}")
            return replace(setup, kv=memory, rules=rules)
        case PlacesSetup() if changes.ctx_size is None:
            return replace(setup, kv=PlacesSetup(num_sequences=changes.sequences or kv.num_sequences))
        case _:
            flag = "--ctx-size" if changes.sequences is None else "--sequences"
            raise ConfigError(f"{flag}: this run kept its KV in another way than cells; leave it out")


def _cells(kv: CellsSetup, ids: int, ctx_size: int | None) -> CellsSetup:
    """Cells for so many sequence ids."""
    if kv.unified:
        cells = ctx_size or kv.num_cells
        limit = cells if kv.sequence_limit == kv.num_cells else min(kv.sequence_limit, cells)
    else:
        cells = ctx_size or kv.sequence_limit * ids
        limit = cells // ids
    if limit < 1:
        raise ConfigError(f"--ctx-size {cells}: is below one cell for each of {ids} sequence ids; raise it")
    return replace(kv, num_sequences=ids, num_cells=cells, sequence_limit=limit)
