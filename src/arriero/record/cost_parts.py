"""Parts of a file that say what steps take: coefficients, and what they hold for; times are microseconds.

A cost profile has them with where they come from, a journal has them since decisions depend on them, and a simulation's
configuration has them so that its result says all.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, ValidRange
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import PassCosts
from arriero.costmodel.tiles import tiles_of
from arriero.record.strict import Count, Name, Positive

Microseconds = Annotated[float, Meta(ge=0, le=1e12)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class Rules(_Part, frozen=True, kw_only=True):
    """As `PassRules`."""

    micro_batch: Positive
    unified: bool
    stream_cells: Positive
    tile_rows: Positive
    cell_pad: Positive
    tiled_heads: Count = 0


class UsedThreads(_Part, frozen=True, kw_only=True):
    """For passes of one row, and for all others."""

    decode: Positive
    prefill: Positive


class ThreadCosts(_Part, frozen=True, kw_only=True):
    """Costs of a pass at one number of threads; a term that is missing costs nothing."""

    threads: Positive
    terms_us: dict[Name, Microseconds]


class Host(_Part, frozen=True, kw_only=True):
    """As `HostCosts`."""

    step_us: Microseconds = 0.0
    entry_us: Microseconds = 0.0
    token_us: Microseconds = 0.0
    delivery_us: Microseconds = 0.0


class Valid(_Part, frozen=True, kw_only=True):
    """As `ValidRange`."""

    rows: Positive
    sequences: Positive
    context: Positive
    pool: Count


class CostSetup(_Part, frozen=True, kw_only=True):
    """A `CalibratedCost`, to the last digit."""

    rules: Rules
    threads: UsedThreads
    passes: list[ThreadCosts]
    host: Host
    valid: Valid
    spread: Annotated[float, Meta(ge=0, le=100)] = 0.0


def cost_setup(cost: CalibratedCost) -> CostSetup:
    """What a cost says, in the form of a file."""
    valid, host = cost.valid, cost.host
    return CostSetup(
        rules=rules_part(cost.rules),
        threads=UsedThreads(decode=cost.threads.decode, prefill=cost.threads.prefill),
        passes=[
            ThreadCosts(threads=number, terms_us={name: float(each) for name, each in costs.named.items() if each})
            for number, costs in sorted(cost.passes.items())
        ],
        host=Host(
            step_us=float(host.step),
            entry_us=float(host.entry),
            token_us=float(host.token),
            delivery_us=float(host.delivery),
        ),
        valid=Valid(rows=valid.rows, sequences=valid.sequences, context=valid.context, pool=valid.pool),
        spread=float(cost.spread),
    )


def cost_from(setup: CostSetup) -> CalibratedCost:
    """The cost that a file says.

    Raises:
        ConfigError: nothing was measured at the threads that compute.
        DataError: a term is unknown.
    """
    valid, host = setup.valid, setup.host
    return CalibratedCost(
        rules=pass_rules(setup.rules),
        passes={
            each.threads: PassCosts.of(each.terms_us, tiles_of(setup.rules.tiled_heads, each.threads))
            for each in setup.passes
        },
        threads=Threads(setup.threads.decode, setup.threads.prefill),
        host=HostCosts(step=host.step_us, entry=host.entry_us, token=host.token_us, delivery=host.delivery_us),
        valid=ValidRange(rows=valid.rows, sequences=valid.sequences, context=valid.context, pool=valid.pool),
        spread=setup.spread,
    )


def pass_rules(rules: Rules) -> PassRules:
    """How a context cuts, as the cost model has it."""
    return PassRules(
        micro_batch=rules.micro_batch,
        unified=rules.unified,
        stream_cells=rules.stream_cells,
        tile_rows=rules.tile_rows,
        cell_pad=rules.cell_pad,
        tiled_heads=rules.tiled_heads,
    )


def rules_part(rules: PassRules) -> Rules:
    """The same in the form of a file."""
    return Rules(
        micro_batch=rules.micro_batch,
        unified=rules.unified,
        stream_cells=rules.stream_cells,
        tile_rows=rules.tile_rows,
        cell_pad=rules.cell_pad,
        tiled_heads=rules.tiled_heads,
    )
