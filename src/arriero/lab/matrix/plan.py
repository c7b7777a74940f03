"""MatrixPlan: everything that a run does, decided before it begins; its manifest is what a resumed run must repeat."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from arriero.core.errors import DataError
from arriero.lab.file_hash import file_sha256
from arriero.lab.matrix.cases import Invocation, invocations
from arriero.lab.matrix.executors import Executor, Settings
from arriero.lab.matrix.matrix_model import MatrixModel
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase
from arriero.record.cpu_lab.run_log import JsonValue

SCHEMA: Final = "arriero-lab-matrix-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixPlan:
    """A matrix that can run.

    Attributes:
        models: files that were found and hashed, in order.
        cases: settings, in order.
        warmup_runs: of each model and case.
        repetitions: same.
        timeout_s: of one invocation.
        settings: that hold for all.
        executor: who measures.
        time_program: GNU time, if each invocation is wrapped in it.
    """

    models: tuple[MatrixModel, ...]
    cases: tuple[MatrixCase, ...]
    warmup_runs: int
    repetitions: int
    timeout_s: float
    settings: Settings
    executor: Executor
    time_program: Path | None

    def invocations(self) -> Iterator[Invocation]:
        """All of them, in the order in which they run."""
        ids = [model.model_id for model in self.models]
        return invocations(ids, self.cases, warmup_runs=self.warmup_runs, repetitions=self.repetitions)

    @property
    def evidence(self) -> Evidence:
        """What its figures are: a captured output that is read again measures nothing."""
        return Evidence.SIMULATED if self.executor.kind is ExecutorKind.SMOKE else Evidence.MEASURED

    def manifest(self) -> dict[str, JsonValue]:
        """Contents by hash and files by base name, so that a run may move to another folder or machine."""
        return {
            "schema": SCHEMA,
            "evidence": str(self.evidence),
            "executor": str(self.executor.kind),
            "library": dict(self.executor.library),
            "models": [_model(model) for model in self.models],
            "cases": [_case(case) for case in self.cases],
            "warmup_runs": self.warmup_runs,
            "repetitions": self.repetitions,
            "timeout_seconds": self.timeout_s,
            "mmap": self.settings.mmap,
            "cpu_only": self.settings.cpu_only,
            "flash_attention": str(self.settings.flash_attention),
            "measure_memory": self.time_program is not None,
            "time_program": None if self.time_program is None else _program(self.time_program),
        }


def planned_of(manifest: Mapping[str, Any], *, file: str) -> tuple[Invocation, ...]:
    """The invocations that a stored manifest plans.

    Raises:
        DataError: it is no manifest of a matrix.
    """
    try:
        if manifest["schema"] != SCHEMA:
            raise DataError(f"is the run of something else ({manifest['schema']}), not of a matrix", file=file)
        ids = [model["id"] for model in manifest["models"]]
        cases = msgspec.convert(manifest["cases"], tuple[MatrixCase, ...])
        counts = {name: int(manifest[name]) for name in ("warmup_runs", "repetitions")}
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise DataError(f"its manifest is none of a matrix ({error}); name another folder", file=file) from None
    return tuple(invocations(ids, cases, **counts))


def _model(model: MatrixModel) -> dict[str, JsonValue]:
    return {
        "id": model.model_id,
        "file": model.path.name,
        "quantization": model.quantization,
        "sha256": model.sha256,
        "bytes": model.num_bytes,
    }


def _case(case: MatrixCase) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = msgspec.to_builtins(case)
    return fields


def _program(path: Path) -> dict[str, JsonValue]:
    return {"name": path.name, "sha256": file_sha256(path)}
