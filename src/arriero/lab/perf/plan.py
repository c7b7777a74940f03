"""PerfPlan: which targets are run how often, and the manifest that a run is resumed by."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arriero.lab.perf.target import Target
from arriero.record.cpu_lab.environment import LabEnvironment, environment_fingerprint
from arriero.record.cpu_lab.perf import SCHEMA, PerfMode, Phase
from arriero.record.cpu_lab.run_log import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One run of one target.

    Attributes:
        invocation_id: unique in the plan.
        target: what is run.
        phase: a warm-up runs without the tool.
        repetition: from 1, in its phase.
    """

    invocation_id: str
    target: Target
    phase: Phase
    repetition: int

    @property
    def stem(self) -> str:
        """A name for files of this invocation."""
        return hashlib.sha256(self.invocation_id.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfPlan:
    """What a run does.

    Attributes:
        mode: what is asked of the tool.
        tool: its name and version.
        settings: of the tool: events, frequency, call graph, function to stay inside.
        targets: in this order.
        warmups: of each target, without the tool.
        repetitions: of each target.
        timeout_s: of each invocation.
        cpus: that targets may use; None for all.
        library: base name -> SHA-256 of the llama.cpp in use; empty for a program of the caller's own.
        environment: machine, compilers and revision.
    """

    mode: PerfMode
    tool: str
    settings: Mapping[str, Any]
    targets: tuple[Target, ...]
    warmups: int
    repetitions: int
    timeout_s: float
    cpus: tuple[int, ...] | None
    library: Mapping[str, str]
    environment: LabEnvironment

    def invocations(self) -> Iterator[Invocation]:
        """Target by target, its warm-ups first."""
        for target in self.targets:
            for phase, count in ((Phase.WARMUP, self.warmups), (Phase.MEASURED, self.repetitions)):
                for repetition in range(1, count + 1):
                    name = f"{target.case.case_id}:{self.mode}:{phase}:{repetition}"
                    yield Invocation(invocation_id=name, target=target, phase=phase, repetition=repetition)

    def manifest(self) -> dict[str, JsonValue]:
        """Contents by hash and files by base name: a run may move. All that must be equal when it goes on."""
        return {
            "schema": SCHEMA,
            "mode": self.mode.value,
            "tool": self.tool,
            "settings": dict(self.settings),
            "cases": [_case(target) for target in self.targets],
            "warmups": self.warmups,
            "repetitions": self.repetitions,
            "timeout_s": self.timeout_s,
            "cpus": None if self.cpus is None else list(self.cpus),
            "library": dict(self.library),
            "machine": environment_fingerprint(self.environment.machine, self.environment.isa, None),
        }


def repeated(targets: Sequence[Target]) -> str | None:
    """A case that stands twice; None if all differ."""
    ids = [target.case.case_id for target in targets]
    return next((each for each in ids if ids.count(each) > 1), None)


def _case(target: Target) -> dict[str, JsonValue]:
    model = target.case.model
    return {
        "target": target.case.target,
        "workload": target.case.workload,
        "num_tokens": target.case.num_tokens,
        "model_sha256": None if model is None else model.sha256,
        "model_bytes": None if model is None else model.bytes,
    }
