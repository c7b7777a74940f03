"""Rows and records of matrices, made by hand."""

from typing import Any

from arriero.core.choices import FlashAttention
from arriero.lab.analysis.groups import groups_of
from arriero.lab.analysis.rows import Row
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.analysis import Group
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase, MatrixRecord, MemorySource, ParsedResult
from arriero.record.cpu_lab.run_key import RunKey
from arriero.record.cpu_lab.run_log import RunManifest, Status, StoredRun, fingerprint
from arriero.record.machine import MachineFacts

SHA = {"F16": "a" * 64, "Q8_0": "b" * 64, "Q4_0": "c" * 64, "Q4_K_M": "d" * 64}
SIZES = {"F16": 400_000, "Q8_0": 200_000, "Q4_0": 100_000, "Q4_K_M": 120_000}


def key(**fields: object) -> RunKey:
    weights = str(fields.get("weights", "Q4_0"))
    threads = fields.get("threads", 1)
    known: dict[str, Any] = {
        "evidence": Evidence.MEASURED,
        "executor": "in-process",
        "machine": "m",
        "library": "l",
        "model": weights.lower(),
        "model_sha256": SHA.get(weights, "e" * 64),
        "weights": weights,
        "threads": threads,
        "batch_threads": threads,
        "prompt_tokens": 128,
        "generated_tokens": 32,
        "context_size": 512,
        "batch_size": 2048,
        "micro_batch": 512,
        "kv_key": "f16",
        "kv_value": "f16",
        "flash_attention": "auto",
        "mmap": True,
    }
    known.update(fields)
    return RunKey(**known)


def row(prefill: float | None = 100.0, decode: float | None = 20.0, repetition: int = 1, **fields: object) -> Row:
    own: dict[str, Any] = {}
    for name in ("elapsed_s", "peak_rss_kib", "kv_cache_bytes", "run_id"):
        if name in fields:
            own[name] = fields.pop(name)
    found = key(**fields)
    return Row(
        key=found,
        run_id=str(own.get("run_id", "run")),
        invocation_id=f"{found.model}:t{found.threads}:{repetition}",
        repetition=repetition,
        prefill=prefill,
        decode=decode,
        elapsed_s=own.get("elapsed_s", 1.0),
        peak_rss_kib=own.get("peak_rss_kib", 1000),
        kv_cache_bytes=own.get("kv_cache_bytes"),
        model_bytes=SIZES.get(found.weights),
    )


def groups(*rows: Row) -> tuple[Group, ...]:
    return groups_of(rows)


MACHINE = MachineFacts(
    cpu="a CPU", cores=2, cores_online=2, cgroup_cores=None, governor=None, frequency_mhz=None, virtualised=True,
    memory_bytes=None, kernel="Linux 6", python="3.11", reasons={},
)  # fmt: skip
ENVIRONMENT = LabEnvironment(
    machine=MACHINE, isa=("avx2",), compilers={}, library=None, version="1", revision=None, is_dirty=False,
    fingerprint="f" * 64, reasons={},
)  # fmt: skip


def conditions(other_cores: float | None) -> ConditionSample:
    return ConditionSample(
        taken_at="2026-01-01T00:00:00+00:00", seconds=0.25, load_average=None, frequency_mhz=None, temperature_c=None,
        steal_share=None, other_cores=other_cores, others=(), reasons={},
    )  # fmt: skip


def record(
    prefill: float | None = 100.0, decode: float | None = 20.0, repetition: int = 1, **fields: object
) -> MatrixRecord:
    names = MatrixCase.__struct_fields__
    shape: dict[str, Any] = {
        "threads": 1, "prompt_tokens": 128, "generated_tokens": 32, "batch_size": 2048, "context_size": 512,
    }  # fmt: skip
    case = MatrixCase(**(shape | {name: fields.pop(name) for name in names if name in fields}))
    weights, phase = str(fields.pop("weights", "Q4_0")), fields.get("phase", "measured")
    result = ParsedResult(
        model_name=weights, model_size="1", backend="CPU", thread_count=case.threads, prompt_tokens=case.prompt_tokens,
        generated_tokens=case.generated_tokens, depth=case.depth, prompt_tokens_per_second=prefill,
        generation_tokens_per_second=decode,
    )  # fmt: skip
    status = fields.get("status", Status.SUCCESS)
    known: dict[str, Any] = {
        "run_id": "run",
        "case_id": case.case_id,
        "invocation_id": f"{weights}:{case.case_id}:{phase}:{repetition}",
        "phase": phase,
        "repetition": repetition,
        "warmup": phase == "warmup",
        "started_at": "2026-01-01T00:00:00+00:00",
        "completed_at": "2026-01-01T00:00:01+00:00",
        "status": status,
        "case": case,
        "command": ("llama-bench",),
        "executed_command": ("llama-bench",),
        "stdout": "",
        "stderr": "",
        "return_code": 0,
        "elapsed_seconds": 1.0,
        "timed_out": False,
        "parsed_results": (result,) if status is Status.SUCCESS else (),
        "parse_error": None,
        "model_logical_id": weights.lower(),
        "model_filename": f"m.{weights}.gguf",
        "quantization": weights,
        "model_sha256": SHA[weights],
        "model_file_size": SIZES[weights],
        "peak_rss_kib": 1000,
        "reported_kv_cache_bytes": None,
        "memory_measurement_source": MemorySource.WAIT4,
        "mmap_enabled": True,
        "environment": ENVIRONMENT,
        "evidence": Evidence.MEASURED,
        "executor": ExecutorKind.IN_PROCESS,
        "flash_attention": FlashAttention.AUTO,
        "library": {"libllama.so": "9" * 64},
        "before": conditions(0.0),
        "after": conditions(0.0),
        "launch_error": None,
        "reasons": {},
    }
    known.update(fields)
    return MatrixRecord(**known)


def stored(*records: MatrixRecord, run_id: str = "run") -> StoredRun[MatrixRecord]:
    manifest = RunManifest(
        schema="arriero-lab-run-v1", run_id=run_id, created_at="2026-01-01T00:00:00+00:00", fingerprint=fingerprint({}),
        manifest={},
    )  # fmt: skip
    return StoredRun(manifest=manifest, records=records)
