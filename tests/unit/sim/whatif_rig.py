"""Setups, costs and requests for tests of what-ifs and capacities."""

from collections.abc import Sequence
from typing import Any

from arriero.backend.synthetic import SyntheticOptions
from arriero.core.ids import RequestId
from arriero.core.option_kinds import Threads
from arriero.core.request import BlankTokens, Request
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, ValidRange
from arriero.costmodel.models import RoundedMicroseconds
from arriero.costmodel.passes import PassRules
from arriero.costmodel.terms import PassCosts
from arriero.engine.journal import describe
from arriero.engine.options import EngineOptions
from arriero.record.journal_setup import Setup
from arriero.sim.asked import Asked

LINEAR = RoundedMicroseconds(base=1000, prefill_row=50, decode_row=100)
CALIBRATED = CalibratedCost(
    rules=PassRules(micro_batch=64, unified=False, stream_cells=512),
    passes={
        1: PassCosts.of({"pass": 2000, "rows_0": 300, "rows_16": 250, "rows_64": 200, "one_key": 0.5, "few_key": 0.5}),
        2: PassCosts.of({"pass": 1500, "rows_0": 200, "rows_16": 150, "rows_64": 120, "one_key": 0.5, "few_key": 0.5}),
    },
    threads=Threads(1, 2),
    host=HostCosts(step=50, entry=5, token=5),
    valid=ValidRange(rows=64, sequences=4, context=512, pool=2048),
)


def setup_of(sequences: int = 4, cells: int = 2048, rows: int = 64, **options: Any) -> Setup:  # noqa: ANN401 - of an engine
    limits = SyntheticOptions(
        num_sequences=sequences + options.get("retained", 0), num_rows=rows, micro_batch=rows, num_cells=cells
    ).limits()
    return describe(limits, EngineOptions(**options), 0)


def asked(*specs: tuple[int, int, int]) -> tuple[Asked, ...]:
    """Requests of (arrival, prompt tokens, output tokens); arrivals ascend."""
    return tuple(one(number, *spec) for number, spec in enumerate(specs, start=1))


def one(number: int, at: int, prompt: int | Sequence[int], output: int, **more: Any) -> Asked:  # noqa: ANN401 - its fields
    tokens = BlankTokens(prompt) if isinstance(prompt, int) else tuple(prompt)
    request = Request(
        request_id=RequestId(number), prompt=tokens, max_tokens=output, arrival_at=at,
        cache_scope=None if isinstance(prompt, int) else "",
        end_tokens=more.pop("end_tokens", frozenset()),
    )  # fmt: skip
    return Asked(name=f"r{number}", request=request, **more)
