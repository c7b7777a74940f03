"""The run row: the first line of a result file, where it comes from and from what."""

import json
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from arriero.core.errors import DataError
from arriero.record.lab_config import LabConfig, config_sha256, is_portable, lab_config_of
from arriero.record.lab_rows import BatchPolicy, Mode
from arriero.record.strict import Count, Name, Sha256, convert, parse_object

RESULT_SCHEMA: Final = "serving-result-v1"
MANIFEST_SCHEMA: Final = "serving-workload-manifest-v1"


class Runner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The program that simulated; for arriero its own package."""

    path: Name
    sha256: Sha256


class WorkloadManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said about a workload beside its file."""

    generator: Name
    generator_config: dict[str, Any]
    request_count: Count
    schema_version: Literal["serving-workload-manifest-v1"]
    seed: Count
    timestamp: None
    workload_class: Name
    workload_schema_version: Literal["serving-workload-v1"]
    workload_sha256: Sha256


class RunRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Provenance; build fields are null where there is no build."""

    benchmark_runner: Runner
    branch: str | None
    cmake_build_type: str | None
    commands: Annotated[list[Annotated[list[str], Meta(min_length=1)]], Meta(min_length=1)]
    config_sha256: Sha256
    dirty_worktree: bool
    evidence_type: Literal["simulated"] = "simulated"
    execution_mode: Mode
    git_revision: str | None
    label: Literal["SIMULATED"] = "SIMULATED"
    llama_cpp_submodule_revision: str | None
    normalized_config: dict[str, Any]
    python_executable: str | None
    python_version: str | None
    record_type: Literal["run"] = "run"
    result_schema_version: Literal["serving-result-v1"] = RESULT_SCHEMA
    scheduling_policy: BatchPolicy | None
    schema_version: Literal["serving-result-v1"] = RESULT_SCHEMA
    seed: Count
    simulator_schema_version: Literal["serving-simulator-v2"] = "serving-simulator-v2"
    timestamp: None = None
    workload_manifest: WorkloadManifest
    workload_sha256: Sha256


def encode_run(row: RunRow) -> bytes:
    """The line without its end: `json.dumps(row, sort_keys=True)` with spaces, as published."""
    return json.dumps(msgspec.to_builtins(row), sort_keys=True).encode()


def decode_run(text: bytes, *, file: str, line: int = 1) -> tuple[RunRow, LabConfig]:
    """Read and check the line, and the configuration inside.

    Raises:
        DataError: names line and field.
    """
    row = convert(parse_object(text, file=file, line=line), RunRow, file=file, line=line)
    config = lab_config_of(row.normalized_config, file=file, line=line, below="normalized_config")

    def check(holds: object, field: str, what: str) -> None:
        if not holds:
            raise DataError(f"line {line}: {field}: {what}", file=file, line=line, field=field)

    digest = config_sha256(row.normalized_config)
    manifest = row.workload_manifest
    policy = None if config.scheduling_policy == "FCFS" else config.scheduling_policy
    check(row.config_sha256 == digest, "config_sha256", f"normalized_config hashes to {digest}; run again")
    check(row.seed == config.run_seed, "seed", f"run_seed of the configuration is {config.run_seed}; run again")
    check(row.seed == manifest.seed, "seed", f"the manifest's is {manifest.seed}; run again")
    check(row.workload_sha256 == manifest.workload_sha256, "workload_sha256", "the manifest has another; run again")
    check(row.execution_mode == config.execution_mode, "execution_mode", "the configuration has another; run again")
    check(row.scheduling_policy == policy, "scheduling_policy", "the configuration has another; run again")
    check(_is_normal(row.benchmark_runner.path), "benchmark_runner.path", "is no normalised relative path; mend it")
    portable = all(not word.startswith("/") for words in row.commands for word in words)
    check(portable, "commands", "hold an absolute path; write relative ones")
    return row, config


def _is_normal(path: str) -> bool:
    return is_portable(path) and all(part not in {"", "."} for part in path.split("/"))
