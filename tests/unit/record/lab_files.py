"""The published result files, for tests of their readers."""

from pathlib import Path
from typing import NamedTuple

from arriero.record.lab_config import read_lab_config
from arriero.workload.files import read_workload
from arriero.workload.records import WorkloadRecord, numbered

NAMES = (
    "fcfs_chat_small", "continuous_chat_small", "shared_prefix_cache_off", "shared_prefix_cache_on",
    "coding_agent_prefix_on", "kv_small", "block_size_8", "mixed_medium_load", "mixed_overload", "decode_first",
    "single_active_fcfs_mixed", "overload_decode_first",
)  # fmt: skip
"""In the order of the published reports."""


class Published(NamedTuple):
    path: Path
    config_path: Path
    workload_path: Path
    records: list[WorkloadRecord]


def published(shared_data: Path, name: str) -> Published:
    folder = shared_data / "serving-lab"
    config_path = folder / "configs" / f"{name}.json"
    workload = folder / "workloads" / Path(read_lab_config(config_path).workload.path).name
    path = folder / "results" / "raw" / f"{name}.jsonl"
    return Published(path, config_path, workload, numbered(read_workload(workload).records))
