"""The preset `serving-lab` against its published results, byte for byte, and against a naive reference."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from arriero.core.errors import DataError
from arriero.record.lab_config import LabConfig, read_lab_config
from arriero.record.lab_rows import IterationRow, LabRow, RequestRow, SummaryRow, encode_row
from arriero.sim.runs import run_serving_lab
from arriero.workload.files import read_workload
from arriero.workload.records import WorkloadRecord
from tests.equivalence.lab_worlds import config, record, worlds
from tests.equivalence.naive_lab import Refused, naive_lab

PUBLISHED = (
    "fcfs_chat_small", "continuous_chat_small", "shared_prefix_cache_off", "shared_prefix_cache_on",
    "coding_agent_prefix_on", "kv_small", "block_size_8", "mixed_medium_load", "mixed_overload", "decode_first",
    "single_active_fcfs_mixed", "overload_decode_first",
)  # fmt: skip


def published_run(folder: Path, name: str) -> tuple[LabConfig, tuple[WorkloadRecord, ...]]:
    found = read_lab_config(folder / "configs" / f"{name}.json")
    return found, read_workload(folder / "workloads" / Path(found.workload.path).name).records


def split(rows: list[LabRow]) -> tuple[list[IterationRow], list[RequestRow], SummaryRow]:
    *others, summary = rows
    assert isinstance(summary, SummaryRow)
    iterations = [row for row in others if isinstance(row, IterationRow)]
    requests = [row for row in others if isinstance(row, RequestRow)]
    assert others == [*iterations, *requests]
    return iterations, requests, summary


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_result_is_repeated_byte_for_byte(shared_data: Path, name: str) -> None:
    folder = shared_data / "serving-lab"
    lines = (folder / "results" / "raw" / f"{name}.jsonl").read_bytes().split(b"\n")
    assert lines[-1] == b""
    assert list(map(encode_row, run_serving_lab(*published_run(folder, name), check=True))) == lines[1:-1]


def test_every_published_configuration_runs_with_and_without_iteration_rows(shared_data: Path) -> None:
    folder = shared_data / "serving-lab"
    names = sorted(path.stem for path in (folder / "configs").glob("*.json") if not path.stem.startswith("matrix_"))
    assert len(names) == 24
    for name in names:
        world = published_run(folder, name)
        every = list(run_serving_lab(*world))
        few = list(run_serving_lab(*world, with_iterations=False))
        assert few == [row for row in every if not isinstance(row, IterationRow)], name


@pytest.mark.parametrize("policy", ["DecodeFirst", "FcfsMixed"])
@pytest.mark.parametrize(("pool", "evicted"), [(5, []), (4, [0])])
def test_two_equal_prompts_and_a_pool_that_just_fits_or_does_not(policy: str, pool: int, evicted: list[int]) -> None:
    world = config(
        total_blocks=pool, block_size_tokens=4, scheduling_policy=policy, prefix=True, max_num_sequences=4,
        max_batched_tokens=64, costs=(0, 0, 0, 0, 0, 1, 1, 1, 1),
    )  # fmt: skip
    records = [record("A", 0, [1, 2, 3, 4], 1), record("B", 0, [1, 2, 3, 4], 12)]
    iterations, requests, summary = split(list(run_serving_lab(world, records, check=True)))
    times = [(row.start_time_us, row.end_time_us) for row in iterations]
    assert times == [(0, 11), (11, 16), *((at, at + 3) for at in range(16, 49, 3))]
    assert [row.kv_allocated for row in iterations[:3]] == [2, 3, 3]
    assert [row.cached_blocks for row in iterations[:3]] == [0, 1, 1]
    assert [(row.iteration_number, row.evicted_ids) for row in iterations if row.evicted_ids] == (
        [(10, evicted)] if evicted else []
    )
    assert summary.makespan_us == 49
    assert summary.peak_allocated_blocks == pool
    assert summary.eviction_count == len(evicted)
    assert (summary.current_allocated_blocks, summary.represented_kv_tokens) == ((1, 4) if pool == 5 else (0, 0))
    assert [row.prompt_tokens_matched for row in requests] == [0, 0]
    assert summary.prefix_lookup_misses == 2


def test_the_worked_example_of_the_cost_model() -> None:
    records = [record("a", 0, 1, 2), record("b", 0, 1, 2)]
    costs = (2, 1, 0, 2, 1, 2, 1, 1, 0)
    one_by_one = config(execution_mode="single_active_fcfs", scheduling_policy="FCFS", costs=costs)
    assert split(list(run_serving_lab(one_by_one, records)))[2].makespan_us == 18
    assert split(list(run_serving_lab(config(costs=costs), records)))[2].makespan_us == 12


@pytest.mark.parametrize("prompt", [9, [1] * 9])
def test_a_prompt_longer_than_a_step_refuses_the_run_before_it_starts(prompt: int | list[int]) -> None:
    world = config(max_batched_tokens=8, prefix=isinstance(prompt, int))
    with pytest.raises(DataError, match="prompt_token_count exceeds max_batched_tokens; chunked prefill is not implem"):
        run_serving_lab(world, [record("a", 0, prompt, 1)])


def test_a_long_prompt_that_the_cache_does_not_hold_ends_the_run_when_it_is_visited() -> None:
    world = config(max_batched_tokens=8, block_size_tokens=2, prefix=True)
    rows = run_serving_lab(
        world, [record("a", 0, [1] * 8, 3), record("b", 500, [1] * 9, 1), record("c", 501, [2] * 9, 1)]
    )
    first = next(rows)
    assert isinstance(first, IterationRow)
    with pytest.raises(DataError, match="oversized unmatched prefill: request 3"):
        list(rows)


def test_a_long_prompt_that_the_cache_holds_runs() -> None:
    world = config(max_batched_tokens=8, block_size_tokens=2, prefix=True)
    rows = list(run_serving_lab(world, [record("a", 0, [1] * 8, 3), record("b", 500, [1] * 9, 1)]))
    assert [row.prompt_tokens_matched for row in split(rows)[1]] == [0, 8]


def test_a_time_above_64_bits_ends_the_run() -> None:
    world = config(costs=(0, 0, 0, 0, 0, 2**63 - 1, 0, 0, 0))
    with pytest.raises(DataError, match="64-bit"):
        list(run_serving_lab(world, [record("a", 0, 1, 2)]))
    with pytest.raises(DataError, match="64-bit"):
        list(run_serving_lab(world, [record("a", 0, 1, 2)], with_iterations=False))


def test_an_endless_prompt_of_unknown_tokens_costs_no_memory() -> None:
    world = config(execution_mode="single_active_fcfs", scheduling_policy="FCFS", costs=(1, 0, 0, 1, 0, 0, 0, 0, 0))
    rows = list(run_serving_lab(world, [record("a", 0, 2**62, 1)]))
    assert split(rows)[2].makespan_us == 2


# workload, mode, req/s, duration, TTFT p50 and p99, E2E p50 and p99, average batch
ONE_COST_MODEL = """
chat FCFS 68.97741 115980 348 816 2380 3680 1
chat DecodeFirst 68.97741 115980 348 644 2380 3680 1.0254
mixed_medium FCFS 104.30066 115052 372 1700 2740 5052 1
mixed_medium DecodeFirst 104.30066 115052 372 1700 2740 5052 1
overload FCFS 307.69231 39000 13216 30484 15920 33500 1
overload DecodeFirst 606.06061 19800 4524 9532 10384 14816 3.7586
"""


@pytest.mark.parametrize("line", ONE_COST_MODEL.strip().splitlines())
def test_one_cost_model_for_both_modes(shared_data: Path, line: str) -> None:
    workload, policy, *expected = line.split()
    records = read_workload(shared_data / "serving-lab" / "workloads" / f"{workload}.jsonl").records
    world = config(
        execution_mode="single_active_fcfs" if policy == "FCFS" else "continuous_batching",
        scheduling_policy=policy, total_blocks=128, block_size_tokens=16, max_num_sequences=4,
        max_batched_tokens=512, costs=(40, 8, 0, 40, 12, 40, 8, 12, 0),
    )  # fmt: skip
    _, requests, summary = split(list(run_serving_lab(world, records)))
    ttft = sorted(row.ttft_us for row in requests if row.ttft_us is not None)
    e2e = sorted(row.end_to_end_latency_us for row in requests if row.end_to_end_latency_us is not None)
    finish = max(row.finish_time_us for row in requests if row.finish_time_us is not None)
    duration = finish - min(row.arrival_time_us for row in requests)
    half = (len(requests) + 1) // 2 - 1
    shown = [f"{len(requests) / (duration / 1_000_000.0):.5f}", str(duration)]
    shown += [str(samples[at]) for samples in (ttft, e2e) for at in (half, -1)]
    average = summary.average_batch_size
    assert average is not None
    assert [*shown, f"{average:.4f}".rstrip("0").rstrip(".")] == expected


def rows_of(world: LabConfig, records: list[WorkloadRecord], *, with_iterations: bool = True) -> list[LabRow] | None:
    """None for a run that is refused."""
    try:
        return list(run_serving_lab(world, records, with_iterations=with_iterations, check=True))
    except DataError:
        return None


@given(worlds())
@settings(max_examples=max(400, settings().max_examples))
def test_random_runs_give_what_the_naive_reference_gives(world: tuple[LabConfig, list[WorkloadRecord]]) -> None:
    rows = rows_of(*world)
    try:
        expected = naive_lab(*world)
    except Refused:
        assert rows is None
        return
    assert rows is not None
    found: list[dict[str, object]] = [msgspec.to_builtins(row) for row in rows]
    for row, wanted in zip(found, expected, strict=True):
        assert row == wanted
    assert rows_of(*world, with_iterations=False) == [row for row in rows if not isinstance(row, IterationRow)]


def test_rows_are_closed_and_plain(shared_data: Path) -> None:
    rows = list(run_serving_lab(*published_run(shared_data / "serving-lab", "kv_small")))
    for row in rows:
        assert json.loads(encode_row(row)) == msgspec.to_builtins(row)
