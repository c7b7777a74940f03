"""The ideal of a workload, against a naive one; and how close a run with room comes to it, on a published trace."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.record.sim_reuse import ReuseTotals
from arriero.record.sim_rows import SimTotals
from arriero.record.simulation_config import SimulationConfig
from arriero.sim.own_ideal import ideal_reuse
from arriero.sim.own_run import run_simulation
from arriero.sim.own_scopes import scope_of
from arriero.testing.strategies import hypothesis_pick
from arriero.workload.importing import TraceImport
from arriero.workload.records import WorkloadRecord
from arriero.workload.traces import TraceOptions
from tests.equivalence.reuse_worlds import own_config, pick_traffic


def naive(config: SimulationConfig, records: list[WorkloadRecord]) -> int:
    """Compare every prompt with every earlier one."""
    rows = 0
    seen: list[tuple[str | None, tuple[int, ...]]] = []
    for record in records:
        prompt, scope = tuple(record.prompt_tokens or ()), scope_of(config, record)
        best = 0
        for other_scope, other in seen:
            if scope is not None and other_scope == scope:
                common = next((i for i, (a, b) in enumerate(zip(prompt, other, strict=False)) if a != b),
                              min(len(prompt), len(other)))  # fmt: skip
                best = max(best, min(common, len(prompt) - 1))
        rows += len(prompt) - best
        seen.append((scope, prompt))
    return rows


@pytest.mark.parametrize("scope", ["global", "key", "session"])
@given(data=st.data())
def test_ideal_is_that_of_comparing_every_prompt_with_every_earlier_one(scope: str, data: st.DataObject) -> None:
    pick = hypothesis_pick(data.draw)
    config = own_config(2, 8, {"num_cells": 100, "reuse": {"cache_scope": scope}})
    records = pick_traffic(pick, pick(1, 15), 10_000, longest=30)
    found = ideal_reuse(config, records)
    assert found.requests == len(records)
    assert found.prompt_tokens == sum(record.prompt_token_count for record in records)
    assert found.prefill_rows == naive(config, records)


@pytest.fixture(scope="module")
def trace(shared_data: Path) -> list[WorkloadRecord]:
    """The whole Mooncake trace, lengths divided by 128."""
    path = shared_data / "traces" / "mooncake_synthetic_trace.jsonl.xz"
    return list(TraceImport("mooncake", path, TraceOptions(scale=128)).records())


def reuse_of(records: list[WorkloadRecord], kv: dict[str, object]) -> tuple[ReuseTotals, float]:
    """What a run reused, and its prompt rows over those of a cache without limit."""
    config = own_config(32, 512, kv)
    (totals,) = (row for row in run_simulation(config, records) if isinstance(row, SimTotals))
    assert totals.reuse is not None
    ideal = ideal_reuse(config, records)
    assert ideal.reused_share == pytest.approx(0.65, abs=0.01)
    return totals.reuse, totals.reuse.prefill_rows / ideal.prefill_rows


@pytest.mark.parametrize(
    "kv",
    [
        {"num_cells": 500_000, "reuse": {"retained": 4_000}},
        {"num_cells": 50_000, "reuse": {"retained": 200, "host_tokens": 500_000}},
        {"num_cells": 96 * 2_000, "layout": "separate", "reuse": {"retained": 64, "host_tokens": 500_000}},
    ],
    ids=["cells for everything", "host store for everything", "separate layout, host store for everything"],
)
def test_trace_computes_hardly_more_than_the_ideal_where_room_suffices(
    trace: list[WorkloadRecord], kv: dict[str, object]
) -> None:
    _, ratio = reuse_of(trace, kv)
    assert ratio <= 1.02


def test_trace_computes_far_more_where_room_is_short(trace: list[WorkloadRecord]) -> None:
    reuse, ratio = reuse_of(trace, {"num_cells": 20_000, "reuse": {"retained": 200}})
    assert ratio > 1.5
    assert reuse.num_evictions > 1_000
