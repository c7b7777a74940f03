import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.record.lab_file import read_lab_result
from arriero.record.lab_run import decode_run, encode_run
from tests.unit.record.lab_files import NAMES, Published, published

Row = dict[str, Any]

# Fields that some identity pins down in every row of their kind. Not pinned, because no identity of the format reaches
# them: gauges of the cache in single iterations, which blocks were evicted, which of two reasons deferred somebody.
PINNED = {
    "iteration": (
        "decode_ids", "end_time_us", "evicted_ids", "internal_fragmentation_tokens", "iteration_number",
        "kv_allocated", "kv_free", "kv_utilization", "matched_tokens", "policy", "prefill_ids", "prefix_hits",
        "prefix_misses", "represented_kv_tokens", "scheduled_decode_tokens", "scheduled_prefill_tokens",
        "scheduled_sequences", "stall", "start_time_us", "total_scheduled_tokens", "record_type",
        "schema_version", "evidence_type",
    ),
    "request": (
        "admitted_time_us", "arrival_time_us", "deadline_us", "decode_token_times_us", "end_to_end_latency_us",
        "final_state", "finish_time_us", "first_token_time_us", "generated_tokens", "inter_token_latencies_us",
        "internal_id", "max_new_tokens", "metadata", "prefix_group", "prompt_tokens", "prompt_tokens_matched",
        "prompt_tokens_original", "prompt_tokens_scheduled", "queue_delay_us", "reason", "request_id", "tpot_us",
        "ttft_us", "workload_class", "record_type", "schema_version", "evidence_type",
    ),
    "summary": (
        "average_batch_size", "cache_eligible_prompt_tokens", "cached_blocks", "cancelled", "completed",
        "current_allocated_blocks", "current_free_blocks", "deferred_requests", "eviction_count", "execution_mode",
        "generated_tokens", "idle_iterations", "internal_fragmentation_tokens", "kv_allocation_failures",
        "kv_capacity_deferrals", "kv_current_utilization", "kv_peak_utilization", "makespan_us",
        "matched_prefix_blocks", "matched_prefix_tokens", "max_batch_size", "max_scheduled_tokens",
        "nonempty_batches", "peak_allocated_blocks", "prefix_lookup_hits", "prefix_lookup_misses", "prefix_lookups",
        "prefix_token_hit_rate", "rejected", "represented_kv_tokens", "run_status", "saved_simulated_prefill_tokens",
        "scheduled_decode_tokens", "scheduled_prefill_tokens", "scheduling_iterations", "scheduling_policy",
        "shared_referenced_blocks", "stalled", "submitted", "submitted_prompt_tokens", "total_scheduled_sequences",
        "record_type", "schema_version", "evidence_type",
    ),
}  # fmt: skip


def mutations(value: object) -> list[object]:
    """Other values of about the same kind."""
    found: list[object]
    match value:
        case bool():
            found = [not value, int(value)]
        case int():
            found = [value + 1, max(0, value - 1) if value else -1, None, float(value), str(value)]
        case float():
            found = [value * 1.5 + 0.125, None, 0]
        case str():
            found = [value + "x", "", None]
        case list():
            found = [[*value, 1], value[:-1] if value else [2], None]
        case dict():
            found = [{"k": 1}, None]
        case _:
            found = [0, 3, "x"]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_published_files_are_valid_with_and_without_their_workload(shared_data: Path, name: str) -> None:
    known = published(shared_data, name)
    result = read_lab_result(known.path, known.records)
    assert result.config.name == name
    assert len(result.requests) == len(known.records) == result.summary.submitted
    assert read_lab_result(known.path).summary == result.summary


@pytest.mark.parametrize("name", NAMES)
def test_run_rows_are_written_as_they_were_read(shared_data: Path, name: str) -> None:
    line = published(shared_data, name).path.read_bytes().split(b"\n")[0]
    row, _ = decode_run(line, file=name)
    assert encode_run(row) == line


@pytest.fixture(scope="module")
def files(shared_data: Path) -> dict[str, Published]:
    return {name: published(shared_data, name) for name in NAMES}


@given(seed=st.integers(0, 2**32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150)
def test_a_file_with_one_changed_field_is_refused(files: dict[str, Published], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    known = files[rng.choice(NAMES)]
    lines = known.path.read_bytes().splitlines()
    number = rng.choice([1, len(lines) - 1, len(lines) - 2, rng.randrange(1, len(lines))])
    row: Row = json.loads(lines[number])
    field = rng.choice(PINNED[row["record_type"]])
    before = json.dumps(row)
    row[field] = rng.choice(mutations(row[field]))
    if json.dumps(row) == before:
        return
    lines[number] = json.dumps(row, sort_keys=True, separators=(",", ":")).encode()
    path = tmp_path / "changed.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(DataError, match=r"^line "):
        read_lab_result(path, known.records)


def damaged(lines: list[bytes], damage: str) -> bytes:
    match damage:
        case "cut":
            return b"\n".join(lines)[:-20]
        case "no end":
            return b"\n".join(lines)
        case "summary twice":
            lines = [*lines, lines[-1]]
        case "no summary":
            lines = lines[:-1]
        case "row missing":
            lines = [*lines[:3], *lines[4:]]
        case "order":
            lines = [lines[0], lines[-2], *lines[1:-2], lines[-1]]
        case "blank line":
            lines = [*lines[:2], b"", *lines[2:]]
        case "no run row":
            lines = lines[1:]
        case _:
            raise AssertionError(damage)
    return b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize(
    "damage", ["cut", "no end", "summary twice", "no summary", "row missing", "order", "blank line", "no run row"]
)
@pytest.mark.parametrize("name", ["mixed_overload", "kv_small", "fcfs_chat_small"])
def test_a_damaged_file_is_refused(shared_data: Path, tmp_path: Path, name: str, damage: str) -> None:
    known = published(shared_data, name)
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(damaged(known.path.read_bytes().splitlines(), damage))
    with pytest.raises(DataError, match=r"^line "):
        read_lab_result(path, known.records)


def test_an_empty_or_missing_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    with pytest.raises(DataError, match="the file is empty"):
        read_lab_result(path)
    with pytest.raises(DataError, match="no such file"):
        read_lab_result(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        ("seed", 1, "seed"),
        ("config_sha256", "0" * 64, "config_sha256"),
        ("config_sha256", "A" * 64, "config_sha256"),
        ("normalized_config.max_num_sequences", 5, "config_sha256"),
        ("normalized_config.max_num_sequences", 0, "normalized_config.max_num_sequences"),
        ("workload_manifest.seed", 1, "seed"),
        ("workload_sha256", "0" * 64, "workload_sha256"),
        ("dirty_worktree", None, "dirty_worktree"),
        ("benchmark_runner.path", "/usr/bin/x", "benchmark_runner.path"),
        ("benchmark_runner.path", "a/../x", "benchmark_runner.path"),
        ("commands", [], "commands"),
        ("commands", [["x", "/etc/passwd"]], "commands"),
        ("timestamp", 3, "timestamp"),
        ("execution_mode", "single_active_fcfs", "execution_mode"),
        ("more", 1, "more"),
    ],
    ids=str,
)
def test_a_run_row_that_contradicts_itself_is_refused(shared_data: Path, place: str, value: object, field: str) -> None:
    row: Row = json.loads(published(shared_data, "mixed_overload").path.read_bytes().split(b"\n")[0])
    *outer, last = place.split(".")
    inner = row
    for name in outer:
        inner = inner[name]
    inner[last] = value
    with pytest.raises(DataError, match=r"^line 1: ") as caught:
        decode_run(json.dumps(row, sort_keys=True).encode(), file="x")
    assert caught.value.field == field
