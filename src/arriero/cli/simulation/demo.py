"""`arriero sim demo`: the same requests three ways, without a model."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import asdict

from arriero.cli.simulation.simulators import LabSimulator
from arriero.cli.sources import make_parser
from arriero.metrics.lab_summary import lab_summary
from arriero.record.lab_config import (
    BackendCosts,
    KvCache,
    LabConfig,
    PrefixCache,
    SloSettings,
    WorkloadReference,
)
from arriero.record.lab_file import lab_life, slos_of
from arriero.record.lab_rows import IterationRow, RequestRow, SummaryRow
from arriero.workload.catalogue import recipe
from arriero.workload.records import WorkloadRecord, numbered

SEED: Final = 7
NUM_REQUESTS: Final = 400
# one cost model for both ways of serving: base, so much a prompt token, so much a decode
_BASE_US, _PREFILL_US, _DECODE_US = 4000, 120, 700
_COLUMNS: Final = (
    ("requests/s", "request_throughput_per_s", 1.0),
    ("output tok/s", "output_token_throughput_per_s", 1.0),
    ("TTFT p50 ms", "ttft_us.p50", 1e-3),
    ("TTFT p99 ms", "ttft_us.p99", 1e-3),
    ("E2E p99 ms", "e2e_latency_us.p99", 1e-3),
    ("mean batch", "average_batch_size", 1.0),
    ("token hit rate", "prefix_token_hit_rate", 1.0),
)


def main(arguments: Sequence[str]) -> int:
    """Simulate and print one table."""
    from arriero.sim.runs import run_serving_lab

    parser = make_parser("sim demo", "What continuous batching and prefix caching change; no model, some seconds.")
    parser.parse_args(arguments)
    records = numbered(
        recipe({
            "schema_version": "serving-workload-v1",
            "workload_class": "shared_system_prompt",
            "request_count": NUM_REQUESTS,
            "seed": SEED,
            "arrival": {"mode": "exponential", "mean_interval_us": 40_000},
        }).make()
    )
    print(f"{NUM_REQUESTS} requests with one system prompt, 40 ms apart on average; the clock is simulated")
    print(f"{'':<36}" + "".join(f"{title:>16}" for title, _, _ in _COLUMNS))
    for title, config in _ways():
        metrics = _metrics(config, records, run_serving_lab)
        print(f"{title:<36}" + "".join(f"{_cell(metrics, name, factor):>16}" for _, name, factor in _COLUMNS))
    print("Same requests, same cost of a step. Batching shares the base cost of a step among sequences;")
    print("the prefix cache computes the common beginning once.")
    return 0


def _ways() -> list[tuple[str, LabConfig]]:
    return [
        ("one request at a time", _config("FCFS", cache=False)),
        ("continuous batching", _config("DecodeFirst", cache=False)),
        ("continuous batching + prefix cache", _config("DecodeFirst", cache=True)),
    ]


def _config(policy: str, *, cache: bool) -> LabConfig:
    is_fcfs = policy == "FCFS"
    return LabConfig(
        schema_version="serving-benchmark-config-v1",
        name="demo",
        evidence_type="simulated",
        execution_mode="single_active_fcfs" if is_fcfs else "continuous_batching",
        scheduling_policy="FCFS" if is_fcfs else "DecodeFirst",
        max_num_sequences=16,
        max_batched_tokens=1024,
        kv_cache=KvCache(total_blocks=1024, block_size_tokens=16),
        prefix_cache=PrefixCache(enabled=cache, namespace="demo", salt=""),
        backend=BackendCosts(
            prefill_base_us=_BASE_US,
            prefill_per_token_us=_PREFILL_US,
            prefill_per_active_sequence_us=0,
            decode_base_us=_BASE_US,
            decode_per_active_sequence_us=_DECODE_US,
            batch_base_us=_BASE_US,
            batch_prefill_per_token_us=_PREFILL_US,
            batch_decode_per_sequence_us=_DECODE_US,
            batch_active_sequence_overhead_us=0,
        ),
        slos=SloSettings(),
        workload=WorkloadReference(path="demo.jsonl", manifest_path="demo.manifest.json"),
        output_path="demo.jsonl",
        run_seed=SEED,
    )


def _metrics(config: LabConfig, records: Sequence[WorkloadRecord], simulate: LabSimulator) -> dict[str, Any]:
    rows = list(simulate(config, records))
    requests = [lab_life(row) for row in rows if isinstance(row, RequestRow)]
    num_iterations = sum(isinstance(row, IterationRow) for row in rows)
    (summary,) = (row for row in rows if isinstance(row, SummaryRow))
    return lab_summary(requests, num_iterations, asdict(summary), slos_of(config))


def _cell(metrics: dict[str, Any], name: str, factor: float) -> str:
    from arriero.record.lab_report import lookup

    value = lookup(metrics, name)
    return "-" if value is None else f"{value * factor:.2f}"
