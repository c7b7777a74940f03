"""Small results of arriero's own mode, for tests of their readers."""

from pathlib import Path
from typing import Any

import msgspec

from arriero.cli.simulation.own import Work, run_one
from arriero.record.simulation_config import SimulationConfig
from arriero.sim.runs import run_simulation
from arriero.workload.records import WorkloadRecord
from tests.equivalence.lab_worlds import record

BLOCKS: dict[str, Any] = {"kind": "blocks", "total_blocks": 6, "block_size": 4, "prefix_cache": True}
WORKLOAD = [
    record("long", 7, 11, 3),
    record("never", 8, 30, 30),
    *(record(f"twin {each}", 9, [1, 2, 3, 4, 5, 6, 7], 6) for each in range(3)),
    record("late", 400, [1, 2, 3, 4, 5, 9], 5),
    record("other", 900, [7] * 20, 4),
]
SCENES: dict[str, dict[str, Any]] = {
    "full": {"trace": "full"},
    "counts": {"trace": "counts", "window": {"warm_up_us": 5, "cool_down_us": 10}},
    "off": {"trace": "off", "slos": {"ttft_us": 60, "largest_gap_us": 30}},
    "cells": {"trace": "full", "kv": {"kind": "cells", "num_cells": 30, "headroom_per_sequence": 0}},
    "slots": {"trace": "counts", "kv": {"kind": "slots"}, "start_rule": "all-slots-free"},
}
"""Name → what differs from the usual configuration."""


def own_config(**changes: Any) -> SimulationConfig:  # noqa: ANN401 - fields of every type
    values = {
        "schema_version": "arriero-simulation-v1",
        "name": "test",
        "limits": {"sequences": 3, "rows": 8},
        "kv": BLOCKS,
        "cost": {"base_us": 10, "prefill_row_us": 1.5},
        "workload": {"path": "w.jsonl"},
        **changes,
    }
    return msgspec.convert(values, SimulationConfig)


def write_own(
    out: Path, config: SimulationConfig, records: list[WorkloadRecord] | None = None, sha256: str = "a" * 64
) -> dict[str, Any]:
    """Simulate into a file; its summary."""
    work = Work(tuple(WORKLOAD if records is None else records), sha256, None, None)
    return run_one(config, work, out, run_simulation, ["arriero", "sim", "run"], force=True)
