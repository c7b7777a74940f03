"""LabConfig: a run of the published serving lab, schema `serving-benchmark-config-v1`."""

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from arriero.core.errors import DataError
from arriero.record.lab_rows import Mode
from arriero.record.strict import Count, Name, Positive, convert, read_table

SCHEMA: Final = "serving-benchmark-config-v1"
FCFS_MODE: Final = "single_active_fcfs"

Policy: TypeAlias = Literal["FCFS", "DecodeFirst", "FcfsMixed"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of the file; every field is required unless it says otherwise."""


class KvCache(_Part, frozen=True, kw_only=True):
    """The pool of blocks."""

    total_blocks: Positive
    block_size_tokens: Positive


class PrefixCache(_Part, frozen=True, kw_only=True):
    """Whether full blocks are shared, and what enters their keys."""

    enabled: bool
    namespace: str
    salt: str


class BackendCosts(_Part, frozen=True, kw_only=True):
    """Coefficients of the two cost models, whole microseconds."""

    prefill_base_us: Count
    prefill_per_token_us: Count
    prefill_per_active_sequence_us: Count
    decode_base_us: Count
    decode_per_active_sequence_us: Count
    batch_base_us: Count
    batch_prefill_per_token_us: Count
    batch_decode_per_sequence_us: Count
    batch_active_sequence_overhead_us: Count


class SloSettings(_Part, frozen=True, kw_only=True):
    """Bounds on latencies; any of them may be left out."""

    ttft_slo_us: Count | UnsetType = UNSET
    tpot_slo_us: Count | UnsetType = UNSET
    e2e_slo_us: Count | UnsetType = UNSET


class WorkloadReference(_Part, frozen=True, kw_only=True):
    """Where the requests stand, relative to the repository."""

    path: Name
    manifest_path: Name


class LabConfig(_Part, frozen=True, kw_only=True):
    """One configuration.

    In `single_active_fcfs` the limits, the pool and the prefix cache are validated and ignored.
    """

    schema_version: Literal["serving-benchmark-config-v1"]
    name: Name
    evidence_type: Literal["simulated"]
    execution_mode: Mode
    scheduling_policy: Policy
    max_num_sequences: Positive
    max_batched_tokens: Positive
    kv_cache: KvCache
    prefix_cache: PrefixCache
    backend: BackendCosts
    slos: SloSettings
    workload: WorkloadReference
    output_path: Name
    run_seed: Count


def read_lab_config(path: Path) -> LabConfig:
    """Read a configuration.

    Raises:
        DataError: names file, field and remedy.
    """
    return lab_config_of(read_table(path), file=str(path))


def lab_config_of(values: object, *, file: str, line: int | None = None, below: str = "") -> LabConfig:
    """A configuration from what JSON gave.

    Args:
        values: the object.
        file: named in errors.
        line: named in errors.
        below: the field in which the object stands.

    Raises:
        DataError: a field is missing, unknown, of another type or out of range, or does not go with another one.
    """
    config = convert(values, LabConfig, file=file, line=line, below=below)
    place = "" if line is None else f"line {line}: "
    outer = f"{below}." if below else ""

    def refuse(field: str, what: str) -> DataError:
        return DataError(f"{place}{outer}{field}: {what}", file=file, line=line, field=f"{outer}{field}")

    is_fcfs = config.execution_mode == FCFS_MODE
    if is_fcfs != (config.scheduling_policy == "FCFS"):
        allowed = "FCFS" if is_fcfs else "DecodeFirst or FcfsMixed"
        what = f"{config.scheduling_policy} does not go with execution_mode {config.execution_mode}; use {allowed}"
        raise refuse("scheduling_policy", what)
    paths = {
        "workload.path": config.workload.path,
        "workload.manifest_path": config.workload.manifest_path,
        "output_path": config.output_path,
    }
    for field, each in paths.items():
        if not is_portable(each):
            raise refuse(field, f"{each!r} leaves the repository; write a relative path without ..")
    return config


def is_portable(path: str) -> bool:
    """Whether a path is relative, with forward slashes, and stays below its root."""
    pure = PurePosixPath(path)
    return bool(path) and "\\" not in path and not pure.is_absolute() and ".." not in pure.parts and ":" not in path


def config_as_json(config: LabConfig) -> dict[str, Any]:
    """The configuration as it stands in a run row."""
    values: dict[str, Any] = msgspec.to_builtins(config)
    return values


def config_sha256(values: object) -> str:
    """The hash of a configuration's JSON in its one canonical form."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
