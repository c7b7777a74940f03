"""What is reused is counted alike in both worlds: the live engine, and the simulator's own mode, told the same.

Token for token: cached tokens of each request and where they came from, prompt rows, hits, evictions, copies, moves.
"""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.record.simulation_config import SimulationConfig
from arriero.testing.strategies import Pick, hypothesis_pick
from tests.equivalence.reuse_worlds import live_counts, own_config, pick_traffic, said_in, simulated_counts

LONGEST = 40  # prompt and answer of one request

SHAPES: dict[str, dict[str, Any]] = {
    "unified": {"layout": "unified", "num_cells": 150, "reuse": {"retained": 5}},
    "unified, much room": {"layout": "unified", "num_cells": 5_000, "reuse": {"retained": 12}},
    "unified, host store": {"layout": "unified", "num_cells": 120, "reuse": {"retained": 3, "host_tokens": 200}},
    "separate": {"layout": "separate", "num_cells": 160, "reuse": {}},
    "separate, retained ids, host store": {
        "layout": "separate", "num_cells": 280, "reuse": {"retained": 3, "host_tokens": 150},
    },
    "separate, host store": {"layout": "separate", "num_cells": 160, "reuse": {"host_tokens": 300}},
    "by key, aged": {
        "layout": "unified", "num_cells": 200,
        "reuse": {"retained": 4, "cache_scope": "key", "retained_ttl_us": 9_000},
    },
    "sessions": {"layout": "separate", "num_cells": 160, "reuse": {"cache_scope": "session"}},
    "sessions, exact": {
        "layout": "separate", "num_cells": 160, "reuse": {"cache_scope": "session", "session_reuse": "exact"},
    },
    "sessions, partial": {
        "layout": "separate", "num_cells": 160,
        "reuse": {"cache_scope": "session", "session_reuse": "lcp", "lcp_min_tokens": 3},
    },
    "nobody follows": {"layout": "unified", "num_cells": 200, "reuse": {"retained": 4, "follows": False}},
    "no regenerate": {"layout": "unified", "num_cells": 200, "reuse": {"retained": 4, "reuse_regenerate": False}},
}  # fmt: skip


def config_of(name: str) -> SimulationConfig:
    return own_config(sequences=4, rows=16, kv=SHAPES[name])


def check_equal(config: SimulationConfig, pick: Pick, count: int, horizon_us: int) -> tuple[int, int]:
    """Both worlds count the same; returns cached and computed prompt tokens."""
    records = pick_traffic(pick, count, horizon_us, longest=LONGEST)
    live = live_counts(config, records, said_in(records))
    simulated = simulated_counts(config, records)
    assert live.cached == simulated.cached
    assert live.prefix == simulated.prefix
    assert live.prefill_rows == simulated.prefill_rows
    assert live.totals == simulated.totals
    return sum(live.cached.values()), live.prefill_rows


@pytest.mark.parametrize("name", SHAPES)
@given(data=st.data())
def test_random_prefixes_are_counted_alike_in_both_worlds(name: str, data: st.DataObject) -> None:
    pick = hypothesis_pick(data.draw)
    check_equal(config_of(name), pick, pick(1, 12), pick(0, 60_000))


@pytest.mark.parametrize("name", SHAPES)
def test_hundreds_of_overlapping_requests_are_counted_alike_in_both_worlds(name: str) -> None:
    pick = random.Random(f"reuse {name}").randint
    cached, computed = check_equal(config_of(name), pick, 300, 900_000)
    assert cached > 50, "the workload is too tame to show anything"
    assert computed > 50
