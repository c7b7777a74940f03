"""Calibrated costs for tests: those of machines that nobody has measured."""

from typing import Final

from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, ValidRange
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import PassCosts

SEPARATE: Final = PassRules(micro_batch=512, unified=False, stream_cells=4096)
UNIFIED: Final = PassRules(micro_batch=512, unified=True, stream_cells=16_384)

_ROW_TERMS: Final = ("rows_0", "rows_16", "rows_64", "rows_256")

FUSED: Final = PassCosts.of({
    "pass": 3000, "build": 800, "rows_0": 2000, "rows_16": 1600, "rows_64": 1500, "rows_256": 1500, "stream": 300,
    "few_key": 24, "one_key": 24, "many_key": 2.2, "logits": 500, "logit_row": 900,
})  # fmt: skip
"""Fused attention: a few rows in a stream cost far more for each key than a tile does, so 64 rows may beat 63."""


def calibrated(
    passes: PassCosts, *, rules: PassRules = SEPARATE, host: HostCosts | None = None, spread: float = 0.0
) -> CalibratedCost:
    """A machine with one number of threads, valid for whatever a test asks."""
    return CalibratedCost(
        rules=rules,
        passes={1: passes},
        threads=Threads(1, 1),
        host=HostCosts(step=100, entry=5, token=10) if host is None else host,
        valid=ValidRange(rows=65_536, sequences=256, context=1_000_000, pool=16_000_000),
        spread=spread,
    )


def flat_cost(step_us: float, row_us: float, *, rules: PassRules = SEPARATE, spread: float = 0.0) -> CalibratedCost:
    """So much for a step and so much for each of its rows, whoever they belong to."""
    passes = PassCosts.of(dict.fromkeys(_ROW_TERMS, row_us))
    return calibrated(passes, rules=rules, host=HostCosts(step=step_us), spread=spread)
