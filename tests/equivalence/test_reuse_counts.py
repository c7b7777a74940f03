"""What is reused is counted alike in both worlds: the live engine, and the simulator's own mode, told the same.

Token for token: cached tokens of each request and where they came from, prompt rows, hits, evictions, copies, moves.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.record.simulation_config import SimulationConfig
from arriero.testing.strategies import Pick, hypothesis_pick
from arriero.workload.records import WorkloadRecord
from tests.equivalence.reuse_worlds import live_counts, own_config, pick_traffic, said_in, simulated_counts

LONGEST = 40  # prompt and answer of one request
STRETCH = 3  # times longer where a sequence is copied by moving its bytes, which a few tokens are not worth


@dataclass(frozen=True, slots=True)
class Shape:
    """A memory for four requests at once, and how much longer than usual prompts are."""

    kv: Mapping[str, Any]
    stretch: int = 1


SHAPES: dict[str, Shape] = {
    "unified": Shape({"layout": "unified", "num_cells": 150, "reuse": {"retained": 5}}),
    "unified, much room": Shape({"layout": "unified", "num_cells": 5_000, "reuse": {"retained": 12}}),
    "unified, host store": Shape(
        {"layout": "unified", "num_cells": 120, "reuse": {"retained": 3, "host_tokens": 200}}
    ),
    "separate": Shape({"layout": "separate", "num_cells": 480, "reuse": {}}, STRETCH),
    "separate, retained ids, host store": Shape(
        {"layout": "separate", "num_cells": 840, "reuse": {"retained": 3, "host_tokens": 450}}, STRETCH
    ),
    "separate, host store": Shape(
        {"layout": "separate", "num_cells": 480, "reuse": {"host_tokens": 900}}, STRETCH
    ),
    "by key, aged": Shape({
        "layout": "unified", "num_cells": 200,
        "reuse": {"retained": 4, "cache_scope": "key", "retained_ttl_us": 9_000},
    }),
    "sessions": Shape({"layout": "separate", "num_cells": 160, "reuse": {"cache_scope": "session"}}),
    "sessions, exact": Shape({
        "layout": "separate", "num_cells": 160, "reuse": {"cache_scope": "session", "session_reuse": "exact"},
    }),
    "sessions, partial": Shape({
        "layout": "separate", "num_cells": 160,
        "reuse": {"cache_scope": "session", "session_reuse": "lcp", "lcp_min_tokens": 3},
    }),
    "nobody follows": Shape({"layout": "unified", "num_cells": 200, "reuse": {"retained": 4, "follows": False}}),
    "no regenerate": Shape(
        {"layout": "unified", "num_cells": 200, "reuse": {"retained": 4, "reuse_regenerate": False}}
    ),
}  # fmt: skip


def config_of(name: str) -> SimulationConfig:
    return own_config(sequences=4, rows=16 * SHAPES[name].stretch, kv=SHAPES[name].kv)


def traffic_of(name: str, pick: Pick, count: int, horizon_us: int) -> list[WorkloadRecord]:
    """Requests whose prompts are as long as the shape's memory makes it worth to reuse them."""
    stretch = SHAPES[name].stretch
    return pick_traffic(pick, count, horizon_us, longest=LONGEST * stretch, stretch=stretch)


def check_equal(name: str, pick: Pick, count: int, horizon_us: int) -> tuple[int, int]:
    """Both worlds count the same; returns cached and computed prompt tokens."""
    config, records = config_of(name), traffic_of(name, pick, count, horizon_us)
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
    check_equal(name, pick, pick(1, 12), pick(0, 60_000))


@pytest.mark.parametrize("name", SHAPES)
def test_hundreds_of_overlapping_requests_are_counted_alike_in_both_worlds(name: str) -> None:
    pick = random.Random(f"reuse {name}").randint
    cached, computed = check_equal(name, pick, 300, 900_000)
    assert cached > 50, "the workload is too tame to show anything"
    assert computed > 50
