"""The result file of a comparison, from what came of it."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from arriero.bench.compare import Compared
from arriero.bench.compare_plan import ComparePlan
from arriero.bench.rounds import Side
from arriero.metrics.validity import worst
from arriero.record.bench_compare import CompareResult
from arriero.record.bench_parts import CalibrationFacts, Evidence, TargetFacts
from arriero.record.bench_result_run import run_facts
from arriero.record.machine import MachineFacts
from arriero.record.provenance import portable_command


class Circumstances(NamedTuple):
    """How a comparison came about."""

    command: Sequence[str]  # the words that started it
    started_at: datetime  # with a time zone
    seconds: float
    machine: MachineFacts
    calibration: CalibrationFacts | None


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
        a=_target(plan, compared, Side.A),
        b=_target(plan, compared, Side.B),
        questions=plan.rules.questions(),
        calibration=circumstances.calibration,
        searches=tuple(compared.searches),
        cells=tuple(compared.cells),
    )


def _target(plan: ComparePlan, compared: Compared, side: Side) -> TargetFacts:
    """What a side is; its command with names in braces, since each cell fills them in differently."""
    spec = plan.sides[side]
    model = plan.hold.model
    return TargetFacts(
        name=spec.name,
        kind="http",
        command=None if spec.command is None else tuple(portable_command(spec.command.words)),
        model=None if model is None else Path(model).name,
        facts={"prompts": plan.form().value, "one_at_a_time": plan.hold.one_at_a_time, **compared.facts.get(side, {})},
    )
