import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from arriero.cli.simulation.own import load_work, run_one
from arriero.cli.simulation.own_view import show
from arriero.metrics.intervals import CONFIDENCE, over_runs
from arriero.metrics.served import Outcome
from arriero.metrics.steps import StepTally
from arriero.record.sim_rows import Deferred, SimRequestRow, SimTotals, StepRow
from arriero.record.simulation_config import SimulationConfig, read_simulation_config
from arriero.workload.records import WorkloadRecord

CONFIG = """
schema_version = "arriero-simulation-v1"
name = "own"
seeds = [1, 2]
limits = {sequences = 2, rows = 64}
kv = {kind = "cells", num_cells = 4096}
cost = {base_us = 100}
workload = {generator = "chat.json"}
slos = {ttft_us = 150}
window = {warm_up_us = 0, cool_down_us = 0}
"""
GENERATOR = {
    "schema_version": "serving-workload-v1",
    "workload_class": "chat",
    "request_count": 3,
    "seed": 9,
    "arrival": {"mode": "exponential", "mean_interval_us": 1000},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "chat.json").write_text(json.dumps(GENERATOR))
    path = tmp_path / "own.toml"
    path.write_text(CONFIG)
    return path


def scripted(
    config: SimulationConfig, records: Sequence[WorkloadRecord]
) -> Iterator[StepRow | SimRequestRow | SimTotals]:
    """Everybody gets two tokens, 100 and 130 us after arriving; the last one is rejected."""
    tally = StepTally(config.limits.rows, 4096)
    tally.step(100, rows=10, sequences=1, waiting=0, kv_held=10, kv_tokens=10)
    yield StepRow(
        step=0, began_at_us=0, ended_at_us=100, decode_rows=0, prefill_rows=10, num_running=1, num_waiting=1,
        kv_held=10, deferred={"rows": 1}, deferred_ids=[Deferred(reason="rows", request_id=2)],
    )  # fmt: skip
    for number, record in enumerate(records, start=1):
        at = record.arrival_time_us
        is_last = number == len(records)
        times = [] if is_last else [at + 100, at + 130]
        yield SimRequestRow(
            internal_id=number, request_id=record.request_id, workload_class=str(record.workload_class),
            prefix_group=None, arrival_at_us=at, started_at_us=None if is_last else at,
            first_token_at_us=None if is_last else times[0], finished_at_us=None if is_last else times[1],
            token_at_us=times, generated_tokens=len(times), max_new_tokens=2, prompt_tokens=5, cached_tokens=0,
            looked_up=False, outcome=Outcome.REJECTED if is_last else Outcome.FINISHED,
            reason="too long" if is_last else None, preemptions=0, recomputed_tokens=0,
        )  # fmt: skip
    yield SimTotals(records[-1].arrival_time_us + 200, tally.figures(), evictions=3)


def run(place: Path, seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    config = read_simulation_config(place)
    out = place.with_name(f"out-{seed}.jsonl")
    summary = run_one(config, load_work(config, place, seed), out, scripted, ["arriero", "sim"], force=True)
    return summary, [json.loads(line) for line in out.read_bytes().splitlines()]


def test_rows_carry_a_schema_of_their_own_and_stand_in_order(place: Path) -> None:
    summary, rows = run(place, 1)
    assert [row["record_type"] for row in rows] == ["run", "step", "request", "request", "request", "summary"]
    assert {row["schema_version"] for row in rows} == {"arriero-simulator-v1"}
    assert rows[0]["seed"] == 1
    assert rows[0]["workload"]["seed"] == 1
    assert rows[0]["config"]["cost"]["base_us"] == 100
    assert rows[1]["deferred_ids"] == [{"reason": "rows", "request_id": 2}]
    assert rows[-1]["counts"] == summary["counts"]


def test_the_summary_counts_everybody(place: Path) -> None:
    summary, _ = run(place, 1)
    assert summary["counts"]["rejected"] == 1
    assert summary["whole_run"]["good_of_submitted"] == 2 / 3
    assert summary["latency"]["finished"]["ttft_us"]["p50"] == 100
    assert summary["latency"]["itl_us_token_weighted"]["p50"] == 30
    assert summary["evictions"] == 3
    assert summary["window"]["begins_at_us"] == 0


def test_a_seed_changes_the_workload_and_the_same_seed_gives_the_same_bytes(place: Path) -> None:
    config = read_simulation_config(place)
    first, again, other = (load_work(config, place, seed) for seed in (1, 1, 2))
    assert first == again
    assert first.records != other.records
    assert first.sha256 != other.sha256
    run(place, 1)
    before = place.with_name("out-1.jsonl").read_bytes()
    run(place, 1)
    assert place.with_name("out-1.jsonl").read_bytes() == before


def test_both_views_print(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summaries = [run(place, seed)[0] for seed in (1, 2)]
    show("own", summaries[0])
    told = capsys.readouterr().out
    assert "own: 2 of 3 requests finished" in told
    assert "incomplete: 1 of 3" in told
    show("own", {"seeds": [1, 2], "confidence": CONFIDENCE, "over_seeds": over_runs(summaries), "runs": summaries})
    assert "2 seeds, mean and half the width of the 95% interval" in capsys.readouterr().out
