"""A result of arriero's own mode as a RunView."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from msgspec import UnsetType

from arriero.core.errors import DataError
from arriero.metrics.served import Outcome
from arriero.metrics.steps import StepFigures
from arriero.record.lab_config import config_sha256
from arriero.record.sim_file import SimSummaryRow, file_sha256, read_sim_rows
from arriero.record.sim_rows import SimRequestRow, StepRow
from arriero.record.sim_run import SimRunRow
from arriero.record.simulation_config import Blocks, Cells, SimulationConfig
from arriero.record.simulation_cost import StepCost
from arriero.report.columns import STEP_FIELDS, Asked, RequestTable, StepTable
from arriero.report.run_view import (
    COSTS,
    LIMITS,
    MEMORY,
    OBJECTIVES,
    PLANNER,
    SEED,
    WORKLOAD,
    Fact,
    RunLimits,
    RunView,
)

NO_STEPS: Final = (
    "The file holds no steps, so batch composition and KV occupancy over time cannot be drawn; "
    "`arriero sim run --trace counts` records them."
)


def read_own_run(path: Path) -> RunView:
    """Read and check a whole file.

    Raises:
        DataError: names file, line and field.
    """
    reader = _Reader(path)
    for row in read_sim_rows(path):
        match row:
            case SimRunRow():
                reader.run = row
            case StepRow():
                reader.steps.add(row.began_at_us, row.ended_at_us, {name: getattr(row, name) for name in STEP_FIELDS})
            case SimRequestRow():
                reader.requests.add(_asked(row))
            case SimSummaryRow(values=values):
                reader.summary = values
    return reader.view()


class _Reader:
    """One file, while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.run: SimRunRow | None = None
        self.steps = StepTable()
        self.requests = RequestTable()
        self.summary: Mapping[str, Any] = {}

    def view(self) -> RunView:
        """Everything.

        Raises:
            DataError: the summary lacks what it must say.
        """
        run = self.run
        assert run is not None, "the reader of rows lets nothing come before the run row"
        config, columns, steps = run.config, self.requests.columns(), self.steps.columns()
        arrivals = columns.moments["arrival"]
        first_arrival = float(arrivals.min()) if len(arrivals) else 0.0
        return RunView(
            name=config.name,
            evidence=run.evidence_type,
            facts=_facts(run, self._path),
            traits=_traits(run),
            limits=_limits(config),
            objectives=_objectives(config),
            steps=steps,
            requests=columns,
            ended_at=first_arrival + self._whole("whole_run", "makespan_us"),
            step_figures=self._figures(),
            evictions=self._whole("evictions"),
            notes=(NO_STEPS,) if steps is None and columns.num_requests else (),
            window=self._get("window"),
        )

    def _figures(self) -> StepFigures:
        values = {name: self._get("steps", name) for name in StepFigures._fields}
        found: dict[str, Any] = {name: None if isinstance(value, Mapping) else value for name, value in values.items()}
        return StepFigures(**found)

    def _whole(self, *names: str) -> int:
        value = self._get(*names)
        if not isinstance(value, int):
            raise self._broken(".".join(names))
        return value

    def _get(self, *names: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        value: Any = self.summary
        for name in names:
            if not isinstance(value, Mapping) or name not in value:
                raise self._broken(".".join(names))
            value = cast("Mapping[str, Any]", value)[name]
        return value

    def _broken(self, field: str) -> DataError:
        return DataError(f"summary row: {field}: missing or no number; run again", file=str(self._path), field=field)


def _asked(row: SimRequestRow) -> Asked:
    return Asked(
        life=row.served.life,
        outcome=row.outcome.value,
        token_at=row.token_at_us,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        preemptions=row.preemptions,
        recomputed_tokens=row.recomputed_tokens,
        looked_up=row.looked_up,
        ended_at=row.arrival_at_us if row.outcome is Outcome.REJECTED else None,
    )


def _facts(run: SimRunRow, path: Path) -> tuple[Fact, ...]:
    revision = run.git_revision or "unknown"
    return (
        Fact("result file", path.name),
        Fact("sha256 of the file", file_sha256(path)),
        Fact("format", run.schema_version),
        Fact("evidence", run.evidence_type),
        Fact("configuration sha256", run.config_sha256),
        Fact("workload sha256", run.workload_sha256),
        Fact("seed of the workload", "none: a file" if run.seed is None else str(run.seed)),
        Fact("code", f"{run.code.package} {run.code.version}, sha256 {run.code.sha256}"),
        Fact("revision", f"{revision}{', with changes' if run.dirty_worktree else ''}"),
        Fact("Python", run.python_version),
        Fact("command", " ".join(run.command)),
    )


def _traits(run: SimRunRow) -> dict[str, str | None]:
    config = run.config
    return {
        WORKLOAD: run.workload_sha256,
        SEED: None if run.seed is None else str(run.seed),
        COSTS: _costs(config.cost),
        OBJECTIVES: as_text(config.slos),
        LIMITS: as_text(config.limits),
        MEMORY: as_text(config.kv),
        PLANNER: f"{config.planner}, {config.policy}, {config.start_rule}",
    }


def _costs(cost: StepCost) -> str:
    """Those that were written down, or which calibration they are from."""
    if isinstance(cost.calibrated, UnsetType):
        return as_text(cost)
    digest = config_sha256(msgspec.to_builtins(cost.calibrated))
    return f"calibrated, sha256 {digest}"


def as_text(values: object) -> str:
    """Settings on one line, those that are not set left out."""
    found: Any = msgspec.to_builtins(values)
    shown = {name: value for name, value in found.items() if value is not None}
    return json.dumps(shown, sort_keys=True).strip("{}").replace('"', "")


def _limits(config: SimulationConfig) -> RunLimits:
    rows, sequences = config.limits.rows, config.limits.sequences
    match config.kv:
        case Cells(num_cells=num_cells):
            return RunLimits(rows, sequences, num_cells, "cells")
        case Blocks(total_blocks=total_blocks):
            return RunLimits(rows, sequences, total_blocks, "blocks")
        case _:
            return RunLimits(rows, sequences, None, "places")


def _objectives(config: SimulationConfig) -> dict[str, float]:
    slos = config.slos
    bounds = {"ttft": slos.ttft_us, "tpot": slos.tpot_us, "e2e": slos.e2e_us, "itl_max": slos.largest_gap_us}
    return {name: float(bound) for name, bound in bounds.items() if bound is not None}
