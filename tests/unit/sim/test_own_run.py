"""Arriero's own mode where it differs from the published lab, each case as small as it can be."""

from typing import Any

import msgspec
import pytest

from arriero.core.errors import ConfigError
from arriero.costmodel.passes import PassRules, Stretch
from arriero.metrics.served import Outcome
from arriero.record.cost_parts import cost_setup
from arriero.record.journal_reader import read_lines
from arriero.record.sim_rows import SimRequestRow, SimTotals, StepRow
from arriero.record.simulation_config import SimulationConfig
from arriero.scheduler.step_target import LEAST_ROWS
from arriero.sim.journal import SimulationJournal
from arriero.sim.replay import replay
from arriero.sim.runs import run_simulation
from arriero.testing.costs import FUSED, calibrated
from arriero.workload.records import WorkloadRecord
from tests.equivalence.lab_worlds import record

BLOCKS: dict[str, Any] = {"kind": "blocks", "total_blocks": 4, "block_size": 4, "prefix_cache": True}


def config(*, kv: dict[str, Any] = BLOCKS, trace: str = "counts", **more: Any) -> SimulationConfig:  # noqa: ANN401
    limits = {"sequences": 4, "rows": 16, **more.pop("limits", {})}
    values = {
        "schema_version": "arriero-simulation-v1",
        "name": "test",
        "limits": limits,
        "kv": kv,
        "cost": {"base_us": 10, "prefill_row_us": 1},
        "workload": {"path": "w.jsonl"},
        "trace": trace,
        **more,
    }
    return msgspec.convert(values, SimulationConfig)


def run(
    setup: SimulationConfig, records: list[WorkloadRecord]
) -> tuple[list[StepRow], dict[str, SimRequestRow], SimTotals]:
    rows = list(run_simulation(setup, records, check=True))
    totals = rows[-1]
    assert isinstance(totals, SimTotals)
    steps = [row for row in rows if isinstance(row, StepRow)]
    return steps, {row.request_id: row for row in rows if isinstance(row, SimRequestRow)}, totals


def test_what_can_never_fit_is_rejected_on_arrival_and_the_others_go_on() -> None:
    _, requests, _ = run(config(), [record("big", 0, 10, 7), record("small", 0, 8, 8), record("late", 900, 3, 2)])
    assert requests["big"].outcome is Outcome.REJECTED
    assert requests["big"].reason == "10 + 7 tokens need 5 blocks; there are 4"
    assert requests["big"].started_at_us is None
    assert requests["small"].outcome is requests["late"].outcome is Outcome.FINISHED


def test_running_requests_that_block_each_other_cost_the_latest_its_place() -> None:
    steps, requests, totals = run(config(), [record("old", 0, 7, 8), record("new", 1, 7, 8)])
    assert (requests["old"].preemptions, requests["new"].preemptions) == (0, 1)
    assert requests["new"].recomputed_tokens > 0
    assert all(row.outcome is Outcome.FINISHED for row in requests.values())
    assert sum(row.preempted for row in steps) == 1
    assert totals.steps.kv_peak == 4


def test_a_long_prompt_is_cut_or_rejected_alone() -> None:
    asks = [record("long", 0, 20, 2), record("short", 0, 3, 2)]
    large = {**BLOCKS, "total_blocks": 20}
    steps, cut, _ = run(config(kv=large), asks)
    assert [row.prefill_rows for row in steps[:2]] == [16, 7]
    assert cut["long"].outcome is Outcome.FINISHED
    _, whole, _ = run(config(kv=large, limits={"chunked_prefill": False}), asks)
    assert whole["long"].outcome is Outcome.REJECTED
    assert "prompts are not cut" in (whole["long"].reason or "")
    assert whole["short"].outcome is Outcome.FINISHED


@pytest.mark.parametrize(("share", "cached"), [(False, 0), (True, 4)])
def test_equal_prompts_of_one_step_share_if_asked(share: bool, cached: int) -> None:  # noqa: FBT001 - a parameter
    kv = {**BLOCKS, "total_blocks": 9, "share_within_step": share}
    _, requests, _ = run(config(kv=kv), [record("a", 0, [1] * 6, 2), record("b", 0, [1] * 6, 2)])
    assert (requests["a"].cached_tokens, requests["b"].cached_tokens) == (0, cached)
    assert requests["a"].looked_up


def test_the_first_token_comes_with_the_end_of_the_prompt() -> None:
    _, requests, _ = run(config(), [record("a", 5, 3, 3)])
    assert requests["a"].token_at_us == [18, 28, 38]
    assert requests["a"].first_token_at_us == 18
    assert requests["a"].finished_at_us == 38


def test_requests_without_prompt_or_output_are_rejected_as_by_the_engine() -> None:
    _, requests, _ = run(config(), [record("a", 0, 0, 3), record("b", 0, 3, 0)])
    assert {row.outcome for row in requests.values()} == {Outcome.REJECTED}


def test_a_full_trace_names_everybody() -> None:
    asks = [record("a", 0, 3, 3), record("b", 1, 3, 3)]
    steps, _, _ = run(config(trace="full", limits={"sequences": 1}), asks)
    assert steps[0].prefill_ids == [1]
    assert steps[1].decode_ids == [1]
    assert steps[1].deferred == {"slots": 1}
    deferred = steps[1].deferred_ids
    assert isinstance(deferred, list)
    assert [(each.request_id, each.reason) for each in deferred] == [(2, "slots")]


@pytest.mark.parametrize(
    ("start_rule", "started"),
    [("continuous", [0, 0, 36]), ("all-slots-free", [0, 0, 46]), ("one-at-a-time", [0, 43, 76])],
)
def test_start_rules(start_rule: str, started: list[int]) -> None:
    asks = [record("a", 0, 3, 4), record("b", 0, 3, 3), record("c", 0, 3, 1)]
    setup = config(kv={"kind": "slots"}, start_rule=start_rule, limits={"sequences": 2})
    _, requests, _ = run(setup, asks)
    assert [row.started_at_us for row in requests.values()] == started


def test_cells_take_headroom_and_idle_time_is_counted() -> None:
    kv = {"kind": "cells", "num_cells": 20, "headroom_per_sequence": 8}
    _, requests, totals = run(config(kv=kv), [record("a", 0, 8, 2), record("b", 0, 8, 2), record("c", 1000, 4, 1)])
    assert requests["b"].started_at_us == requests["a"].finished_at_us
    assert totals.steps.num_idle == 1
    assert totals.steps.idle_us == 1000 - (requests["b"].finished_at_us or 0)


def test_fewer_rows_than_sequences_are_refused() -> None:
    with pytest.raises(ConfigError, match="each needs one"):
        run_simulation(config(kv={"kind": "slots"}, limits={"rows": 3, "sequences": 4}), [])


@pytest.mark.parametrize("layout", ["separate", "unified"])
def test_measured_costs_move_the_clock_and_a_target_cuts_prompts(layout: str) -> None:
    rules = PassRules(micro_batch=64, unified=layout == "unified", stream_cells=512)
    cost = calibrated(FUSED, rules=rules)
    asks = [record("stream", 0, 8, 60), *(record(f"long {each}", 20_000 * each, 150, 3) for each in (1, 2, 3))]
    limit = cost.time([Stretch(0, 40, 1, wants_logits=True), Stretch(1, 0, 40, wants_logits=True)])

    def serve(**limits: float) -> tuple[list[StepRow], list[bytes]]:
        lines: list[bytes] = []
        setup = config(
            kv={"kind": "cells", "num_cells": 2048, "layout": layout},
            cost={"calibrated": msgspec.to_builtins(cost_setup(cost))},
            limits={"sequences": 4, "rows": 512, **limits},
        )
        rows = run_simulation(setup, asks, check=True, journal=SimulationJournal(lines.append))
        return [row for row in rows if isinstance(row, StepRow)], lines

    steps, lines = serve(itl_target_ms=limit / 1000)
    mixed = [row for row in steps if row.decode_rows and row.prefill_rows]
    assert mixed
    assert all(row.ended_at_us - row.began_at_us <= limit or row.prefill_rows <= LEAST_ROWS for row in mixed)
    assert replay(read_lines(lines), check=True).steps >= len(steps)
    free, _ = serve()
    assert max(row.ended_at_us - row.began_at_us for row in free if row.decode_rows and row.prefill_rows) > limit
