"""The result file of a comparison, from what came of it."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from arriero.bench.compare import Compared
from arriero.bench.compare_plan import ComparePlan
from arriero.bench.compare_sides import SideSpec
from arriero.bench.rounds import Side
from arriero.bench.servers_version import version_of
from arriero.metrics.validity import worst
from arriero.record.bench_compare import CompareResult
from arriero.record.bench_parts import CalibrationFacts, Evidence, TargetFacts
from arriero.record.bench_result_run import run_facts
from arriero.record.machine import MachineFacts
from arriero.record.provenance import portable_command
from arriero.record.sim_file import file_sha256


class ModelFile(NamedTuple):
    """The file that both sides compute with."""

    name: str
    num_bytes: int
    sha256: str


class Circumstances(NamedTuple):
    """How a comparison came about."""

    command: Sequence[str]  # the words that started it
    started_at: datetime  # with a time zone
    seconds: float
    machine: MachineFacts
    calibration: CalibrationFacts | None
    model: ModelFile | None = None  # None: no command names one, or it is no file here
    versions: Mapping[Side, str] = MappingProxyType({})  # of those that say theirs


def model_file(path: Path) -> ModelFile | None:
    """Facts of a model's file; None if there is none.

    Raises:
        DataError: it cannot be read.
    """
    if not path.is_file():
        return None
    return ModelFile(path.name, path.stat().st_size, file_sha256(path))


def versions_of(plan: ComparePlan) -> dict[Side, str]:
    """What the sides that are started here say of their versions; each program is run once to print it."""
    asked = {
        side: version_of(spec.command, plan.values(plan.cells[0]))
        for side, spec in plan.sides.items()
        if spec.command is not None
    }
    return {side: version for side, version in asked.items() if version is not None}


def assemble(plan: ComparePlan, compared: Compared, circumstances: Circumstances) -> CompareResult:
    """The whole file."""
    in_verdict = [each.point.validity for cell in compared.cells for each in cell.rounds if each.phase in {"aa", "ab"}]
    return CompareResult(
        validity=worst(in_verdict) if in_verdict else None,
        status=compared.status,
        error=compared.error,
        evidence=Evidence.END_TO_END,
        run=run_facts(
            circumstances.command,
            started_at=circumstances.started_at,
            seconds=circumstances.seconds,
            was_interrupted=compared.status == "interrupted",
        ),
        machine=circumstances.machine,
        a=_target(plan, compared, circumstances, Side.A),
        b=_target(plan, compared, circumstances, Side.B),
        questions=plan.rules.questions(),
        calibration=circumstances.calibration,
        searches=tuple(compared.searches),
        cells=tuple(compared.cells),
    )


def _target(plan: ComparePlan, compared: Compared, circumstances: Circumstances, side: Side) -> TargetFacts:
    """What a side is; its command with names in braces, since each cell fills them in differently."""
    spec = plan.sides[side]
    model = plan.hold.model if _takes(spec, "model") else None
    return TargetFacts(
        name=spec.name,
        kind="http",
        command=None if spec.command is None else tuple(portable_command(spec.command.words)),
        model=None if model is None else Path(model).name,
        facts={
            "prompts": plan.form().value,
            "one_at_a_time": plan.hold.one_at_a_time,
            **_started_with(plan, circumstances, side),
            **compared.facts.get(side, {}),
        },
    )


def _started_with(plan: ComparePlan, circumstances: Circumstances, side: Side) -> dict[str, Any]:
    """What is known of a side because it is started here; a fact that is not known is left out."""
    spec, model = plan.sides[side], circumstances.model
    known: dict[str, Any] = {}
    if spec.peer is not None:
        known |= {"peer": spec.peer, "flags": shlex.join(portable_command(spec.flags))}
    if side in circumstances.versions:
        known["version"] = circumstances.versions[side]
    if _takes(spec, "threads"):
        known["threads"] = plan.hold.threads
    if model is not None and _takes(spec, "model"):
        known |= {"model_file": model.name, "model_bytes": model.num_bytes, "model_sha256": model.sha256}
    return known


def _takes(spec: SideSpec, name: str) -> bool:
    """Whether a side is started with the value of a name in braces."""
    return spec.command is not None and any(f"{{{name}}}" in word for word in spec.command.words)
