import csv
import io

from arriero.metrics.mixed_decode import MixedCost, MixedPolicy
from arriero.record.mixed_csv import MixedSetup, iterations_csv, requests_csv, run_id, summary_csv
from arriero.sim.mixed_workloads import mixed_workload
from tests.equivalence.naive_mixed import naive_mixed

COST = MixedCost()


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_run_ids_are_the_published_ones() -> None:
    short = MixedSetup("exp11_like_all_short", 100, 4, 128, 42, COST)
    realistic = MixedSetup("mixed_realistic", 50, 4, 128, 7, COST)
    assert run_id(short, MixedPolicy) == "d26c1609bcc4"
    assert run_id(realistic, reversed(MixedPolicy)) == "a2fa5ef0ddcd"  # whatever the order of policies


def test_files_have_the_published_columns_and_read_back_exactly() -> None:
    run = naive_mixed(MixedPolicy.CONTINUOUS, list(mixed_workload("mixed_realistic", seed=7)), 4, 128, COST)
    requests = rows_of(requests_csv(run))
    assert list(requests[0]) == [
        "request_id", "arrival_time_ms", "assigned_at_ms", "first_token_time_ms", "finish_time_ms", "prompt_tokens",
        "decode_tokens", "queue_wait_ms", "time_to_first_token_ms", "total_latency_ms", "prefill_ms", "decode_ms",
        "class_label",
    ]  # fmt: skip
    assert [float(row["finish_time_ms"]) for row in requests] == [life.finish_ms for life in run.lives]
    assert float(requests[0]["arrival_time_ms"]) == 7.826296884696085
    iterations = rows_of(iterations_csv(run))
    assert [row["iteration_index"] for row in iterations] == [str(index) for index in range(377)]
    assert sum(int(row["batch_size"]) for row in iterations) == 2712
    assert sum(int(row["admitted_this_iteration"]) for row in iterations) == 50


def test_the_summary_has_fixed_columns_first_and_the_others_by_name() -> None:
    requests = list(mixed_workload("mixed_decode_only"))
    runs = {policy: naive_mixed(policy, requests, 4, 128, COST) for policy in MixedPolicy}
    text = summary_csv(MixedSetup("mixed_decode_only", None, 4, 128, 42, COST), runs)
    rows = rows_of(text)
    columns = list(rows[0])
    assert columns[:10] == [
        "policy", "workload", "n_slots", "n_batch", "seed", "n_completed", "makespan_ms", "tokens_per_second",
        "decode_calls", "tokens_per_decode_call",
    ]  # fmt: skip
    assert columns[10:] == sorted(columns[10:])
    assert {"active_slots_p90", "class_long_ttft_ms_p95", "queue_wait_ms_p50", "n_iterations"} <= set(columns)
    assert [row["decode_calls"] for row in rows] == ["10923", "6425", "2861"]


def test_the_same_run_gives_the_same_bytes_with_line_feeds() -> None:
    requests = list(mixed_workload("staggered_identical_short"))
    first, second = (naive_mixed(MixedPolicy.STATIC, requests, 8, 32, COST) for _ in range(2))
    assert requests_csv(first) == requests_csv(second)
    assert iterations_csv(first) == iterations_csv(second)
    assert "\r" not in requests_csv(first)
