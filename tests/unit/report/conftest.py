"""Results that were really simulated, once for all tests of reports."""

import json
from pathlib import Path

import pytest

from arriero.cli.main import main

CONFIG = """
schema_version = "arriero-simulation-v1"
name = "{name}"
limits = {{sequences = 4, rows = 48}}
kv = {{kind = "cells", num_cells = {cells}}}
cost = {{base_us = 4000, prefill_row_us = 120, decode_row_us = 700}}
workload = {{generator = "chat.json"}}
slos = {{ttft_us = 400000, e2e_us = 2000000}}
window = {{warm_up_us = 100000, cool_down_us = 100000}}
trace = "{trace}"
"""
GENERATOR = {
    "schema_version": "serving-workload-v1",
    "workload_class": "chat",
    "request_count": 120,
    "seed": 9,
    "arrival": {"mode": "exponential", "mean_interval_us": 40_000},
}


def simulate(folder: Path, name: str, *, trace: str = "counts", cells: int = 1024, seed: int = 9) -> Path:
    """One run; its journal stands beside it."""
    (folder / "chat.json").write_text(json.dumps({**GENERATOR, "seed": seed}))
    config, out = folder / f"{name}.toml", folder / f"{name}.jsonl"
    config.write_text(CONFIG.format(name=name, trace=trace, cells=cells))
    words = ["sim", "run", "--config", str(config), "--out", str(out), "--journal", str(out.with_suffix(".journal"))]
    assert main(words) == 0
    return out


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `plain`, `untraced` (no steps), `tight` (preemptions) and `other` (another workload)."""
    folder = tmp_path_factory.mktemp("simulated")
    simulate(folder, "plain")
    simulate(folder, "untraced", trace="off")
    simulate(folder, "tight", cells=256)
    simulate(folder, "other", seed=10)
    return folder


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A folder with the results of two of our own definitions in the published format, one without iterations."""
    folder = tmp_path_factory.mktemp("lab")
    for name, trace in (("traced", "full"), ("untraced", "off")):
        config = root / "definitions" / "configs" / "mix_busy_decode_first.json"
        words = ["sim", "run", "--preset", "serving-lab", "--config", str(config), "--root", str(root / "definitions")]
        assert main([*words, "--trace", trace, "--out", str(folder / f"{name}.jsonl")]) == 0
    return folder
