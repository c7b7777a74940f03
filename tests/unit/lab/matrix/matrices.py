"""Matrices over the fake bench program: real files, real processes, no model."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from arriero.core.choices import FlashAttention
from arriero.lab.matrix.executors import Executor, Settings
from arriero.lab.matrix.llama_bench import find_llama_bench
from arriero.lab.matrix.matrix_model import MatrixModel
from arriero.lab.matrix.plan import MatrixPlan
from arriero.lab.matrix.runner import Surroundings
from arriero.metrics.validity import BusyProcess
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment, environment_fingerprint
from arriero.record.cpu_lab.matrix import MatrixCase
from arriero.record.machine import MachineFacts
from arriero.testing.fake_bench import Mode, write_fake_bench

SETTINGS = Settings(mmap=True, cpu_only=True, flash_attention=FlashAttention.AUTO)
MACHINE = MachineFacts(
    cpu="a CPU",
    cores=2,
    cores_online=2,
    cgroup_cores=None,
    governor=None,
    frequency_mhz=None,
    virtualised=True,
    memory_bytes=None,
    kernel="Linux 6",
    python="3.11.0 (cpython)",
    reasons={},
)
ENVIRONMENT = LabEnvironment(
    machine=MACHINE,
    isa=("avx2",),
    compilers={},
    library=None,
    version="0",
    revision=None,
    is_dirty=True,
    fingerprint=environment_fingerprint(MACHINE, ("avx2",), None),
    reasons={"library": "a test"},
)


def sample() -> ConditionSample:
    """A quiet moment."""
    return ConditionSample(
        taken_at="2026-01-01T00:00:00.000+00:00",
        seconds=0.1,
        load_average=None,
        frequency_mhz=None,
        temperature_c=None,
        steal_share=None,
        other_cores=0.5,
        others=(BusyProcess(name="other", cores=0.5),),
        reasons={},
    )


AROUND = Surroundings(ENVIRONMENT, sample)


def cases(*prompts: int, threads: tuple[int, ...] = (1, 2)) -> tuple[MatrixCase, ...]:
    """Small cases."""
    return tuple(
        MatrixCase(threads=number, prompt_tokens=prompt, generated_tokens=8, batch_size=512, context_size=256)
        for prompt in prompts
        for number in threads
    )


def fake_executor(folder: Path, modes: Mapping[str, Mode] | None = None, *, delay_s: float = 0.0) -> Executor:
    """The fake program in a folder."""
    return find_llama_bench(write_fake_bench(folder / "bin", modes, delay_s=delay_s), SETTINGS)


def fake_plan(
    folder: Path,
    modes: Mapping[str, Mode] | None = None,
    *,
    matrix: tuple[MatrixCase, ...] | None = None,
    executor: Executor | None = None,
    repetitions: int = 2,
    warmup_runs: int = 1,
    timeout_s: float = 30.0,
) -> MatrixPlan:
    """A plan of one model that is no model."""
    model = folder / "tiny.gguf"
    model.write_bytes(b"weights")
    return MatrixPlan(
        models=(MatrixModel("tiny", model, "Q4_0", hashlib.sha256(b"weights").hexdigest(), 7),),
        cases=cases(64, 128) if matrix is None else matrix,
        warmup_runs=warmup_runs,
        repetitions=repetitions,
        timeout_s=timeout_s,
        settings=SETTINGS,
        executor=fake_executor(folder, modes) if executor is None else executor,
        time_program=None,
    )


def ignore(line: str) -> None:
    """Nobody listens."""
    del line
