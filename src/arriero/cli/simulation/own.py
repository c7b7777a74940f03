"""Runs in arriero's own mode: one for each seed, rows written as they come, summarised together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from arriero.cli.simulation.output import new_file, require_absent
from arriero.cli.simulation.simulators import OwnSimulator, own_simulator
from arriero.cli.simulation.tracking import tracked
from arriero.metrics.goodput import Slos
from arriero.metrics.intervals import CONFIDENCE, over_runs
from arriero.metrics.run_summary import run_summary
from arriero.metrics.served import ServedTally
from arriero.metrics.window import Window, measured_window
from arriero.record.provenance import own_run_row
from arriero.record.sim_rows import SCHEMA, SimRequestRow, SimTotals, StepRow, encode_sim_row, encode_table
from arriero.record.simulation_config import SimulationConfig
from arriero.workload.records import WorkloadRecord


class Work(NamedTuple):
    """The requests of one run."""

    records: tuple[WorkloadRecord, ...]
    sha256: str
    settings: dict[str, Any] | None  # manifest or generator's settings
    seed: int | None


def run_own(
    config: SimulationConfig, place: Path, out: Path, command: Sequence[str], *, force: bool, trace: str | None = None
) -> dict[str, Any]:
    """Run every seed; the summary of the one run, or the runs' intervals.

    Raises:
        DataError, ConfigError: a file cannot be used or written.
    """
    if trace is not None:
        config = msgspec.structs.replace(config, trace=trace)
    seeds: list[int | None] = list(config.seeds) or [None]
    outs = [out if len(seeds) == 1 else out.with_name(f"{out.stem}-seed-{seed}{out.suffix}") for seed in seeds]
    require_absent(outs, force=force)
    summaries: list[dict[str, Any]] = []
    for seed, path in zip(seeds, outs, strict=True):
        work = load_work(config, place, seed)
        summaries.append(run_one(config, work, path, own_simulator(), command, force=force))
    if len(summaries) == 1:
        return summaries[0]
    return {"seeds": seeds, "confidence": CONFIDENCE, "over_seeds": over_runs(summaries), "runs": summaries}


def run_one(
    config: SimulationConfig, work: Work, out: Path, simulate: OwnSimulator, command: Sequence[str], *, force: bool
) -> dict[str, Any]:
    """Simulate one workload, write its file, and return its summary."""
    tally = ServedTally(_window(config, work.records))
    totals: SimTotals | None = None
    arrivals = [record.arrival_time_us for record in work.records]
    rows = simulate(config, work.records)
    run = own_run_row(
        msgspec.to_builtins(config),
        schema=SCHEMA,
        workload_sha256=work.sha256,
        workload=work.settings,
        seed=work.seed,
        command=command,
    )
    with new_file(out, force=force) as file:
        file.write(encode_table(run) + b"\n")
        for row in tracked(rows, config.name, max(arrivals, default=0), _time_of):
            match row:
                case SimTotals():
                    totals = row
                    continue
                case SimRequestRow():
                    tally.add(row.served, row.token_at_us)
                case StepRow():
                    pass
            file.write(encode_sim_row(row) + b"\n")
        assert totals is not None, "a run ends with its totals"
        summary = run_summary(
            tally,
            totals.steps,
            makespan_us=totals.ended_at_us - min(arrivals, default=totals.ended_at_us),
            slos=Slos(config.slos.ttft_us, config.slos.tpot_us, config.slos.e2e_us),
            largest_gap_slo=config.slos.largest_gap_us,
        )
        summary["evictions"] = totals.evictions
        file.write(encode_table({"record_type": "summary", "schema_version": SCHEMA, **summary}) + b"\n")
    return summary


def load_work(config: SimulationConfig, place: Path, seed: int | None) -> Work:
    """The requests that a configuration names, relative to its folder.

    Raises:
        DataError: a file cannot be used.
    """
    from arriero.record.lab_config import config_sha256
    from arriero.workload.catalogue import recipe
    from arriero.workload.files import read_workload
    from arriero.workload.manifest import check_manifest, read_manifest
    from arriero.workload.strict import read_settings

    source, folder = config.workload, place.parent
    if source.path is not None:
        workload = read_workload(folder / source.path)
        manifest = read_manifest(folder / source.manifest_path) if source.manifest_path else None
        if manifest is not None:
            check_manifest(manifest, workload, file=source.manifest_path)
        settings = None if manifest is None else msgspec.to_builtins(manifest)
        return Work(workload.records, workload.sha256, settings, None)
    assert source.generator is not None, "a configuration names one of the two"
    settings = read_settings(folder / source.generator)
    if seed is not None:
        settings = {**settings, "seed": seed}
    made = recipe(settings, file=source.generator)
    return Work(tuple(made.make()), config_sha256(settings), settings, made.seed)


def _window(config: SimulationConfig, records: Sequence[WorkloadRecord]) -> Window | None:
    if config.window is None or not records:
        return None
    arrivals = [record.arrival_time_us for record in records]
    return measured_window(min(arrivals), max(arrivals), config.window.warm_up_us, config.window.cool_down_us)


def _time_of(row: StepRow | SimRequestRow | SimTotals) -> int | None:
    return row.ended_at_us if isinstance(row, StepRow) else None
