"""Plans and records for tests of the profiler."""

import sys
from collections.abc import Sequence

from arriero.lab.perf.plan import PerfPlan
from arriero.lab.perf.target import Target
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.perf import PerfCase, PerfMode, TargetModel
from arriero.record.machine import MachineFacts

SHA = "0" * 64
PYTHON = (sys.executable, "-SE", "-c")
MACHINE = MachineFacts(
    cpu="a CPU", cores=2, cores_online=2, cgroup_cores=None, governor=None, frequency_mhz=None, virtualised=True,
    memory_bytes=None, kernel="Linux 6", python="3.11", reasons={},
)  # fmt: skip
ENVIRONMENT = LabEnvironment(
    machine=MACHINE, isa=("avx2",), compilers={}, library=None, version="0", revision=None, is_dirty=False,
    fingerprint=SHA, reasons={},
)  # fmt: skip


def quiet() -> ConditionSample:
    return ConditionSample(
        taken_at="now", seconds=0.0, load_average=None, frequency_mhz=None, temperature_c=None, steal_share=None,
        other_cores=None, others=(), reasons={},
    )  # fmt: skip


def target(name: str, code: str = "pass", *, workload: str = "p8-n2-t1", tokens: int | None = 10) -> Target:
    model = TargetModel(name=name, bytes=7, sha256=SHA)
    return Target(
        case=PerfCase(target=name, model=model, workload=workload, num_tokens=tokens),
        command=(*PYTHON, code),
        environment={},
    )


def plan(
    targets: Sequence[Target], mode: PerfMode = PerfMode.STAT, *, warmups: int = 1, repetitions: int = 2,
    timeout_s: float = 30.0, events: Sequence[str] = ("task-clock", "instructions", "cycles"),
) -> PerfPlan:  # fmt: skip
    return PerfPlan(
        mode=mode,
        tool="perf 6.1.fake",
        settings={"events": list(events), "left_out": {"branches": "unsupported"}},
        targets=tuple(targets),
        warmups=warmups,
        repetitions=repetitions,
        timeout_s=timeout_s,
        cpus=None,
        library={"libggml-cpu.so": SHA},
        environment=ENVIRONMENT,
    )
