"""Runs in arriero's own mode: one for each seed, rows written as they come, summarised together."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from arriero.cli.simulation.journals import check_journal, opened_journal
from arriero.cli.simulation.output import new_file, require_absent
from arriero.cli.simulation.simulators import OwnSimulator
from arriero.cli.simulation.tracking import tracked, watched
from arriero.core.errors import DataError
from arriero.metrics.intervals import CONFIDENCE, over_runs
from arriero.metrics.served import ServedTally
from arriero.metrics.window import Window, measured_window
from arriero.record.provenance import own_run_row
from arriero.record.sim_check import summary_of
from arriero.record.sim_rows import SCHEMA, SimRequestRow, SimTotals, StepRow, encode_sim_row, encode_table
from arriero.record.simulation_config import SimulationConfig
from arriero.sim.runs import run_simulation
from arriero.workload.records import WorkloadRecord


class OwnFiles(NamedTuple):
    """Where a run is read from and written to; with several seeds, each has files of its own."""

    config: Path
    out: Path
    journal: Path | None = None

    def of_seed(self, seed: int | None) -> "OwnFiles":
        """The files of one of several seeds; the same ones where there is none."""
        if seed is None:
            return self
        journal = None if self.journal is None else _with_seed(self.journal, seed)
        return OwnFiles(self.config, _with_seed(self.out, seed), journal)


class Work(NamedTuple):
    """The requests of one run."""

    records: tuple[WorkloadRecord, ...]
    sha256: str
    settings: dict[str, Any] | None  # manifest or generator's settings
    seed: int | None


def run_own(
    config: SimulationConfig, files: OwnFiles, command: Sequence[str], *, force: bool, trace: str | None = None
) -> dict[str, Any]:
    """Run every seed; the summary of the one run, or the runs' intervals.

    Raises:
        DataError, ConfigError: a file cannot be used or written.
    """
    if trace is not None:
        config = msgspec.structs.replace(config, trace=trace)
    seeds: list[int | None] = list(config.seeds) or [None]
    places = [files.of_seed(seed if len(seeds) > 1 else None) for seed in seeds]
    for each in places:
        require_absent([each.out], force=force)
        check_journal(each.journal, each.out, force=force)
    summaries: list[dict[str, Any]] = []
    for seed, each in zip(seeds, places, strict=True):
        work = load_work(config, each.config, seed)
        with opened_journal(each.journal, force=force) as journal:
            simulate = partial(run_simulation, journal=journal)
            try:
                summaries.append(run_one(config, work, each.out, simulate, command, force=force))
            except DataError as error:
                error.file = error.file or str(each.config)
                raise
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
        if config.trace == "off":
            rows = watched(rows, config.name)
        else:
            rows = tracked(rows, config.name, max(arrivals, default=0), _time_of)
        for row in rows:
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
        makespan = totals.ended_at_us - min(arrivals, default=totals.ended_at_us)
        summary = summary_of(config, tally, totals.steps, makespan, totals.evictions, totals.reuse)
        file.write(encode_table({"record_type": "summary", "schema_version": SCHEMA, **summary}) + b"\n")
    return summary


def load_work(config: SimulationConfig, place: Path, seed: int | None) -> Work:
    """The requests that a configuration names, relative to its folder.

    Raises:
        DataError: a file cannot be used.
    """
    from arriero.workload.catalogue import recipe
    from arriero.workload.files import read_workload, write_records
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
    records = tuple(made.make())
    with Path(os.devnull).open("wb") as nowhere:
        written = write_records(nowhere, records)  # the hash of the file that `workload generate` writes
    return Work(records, written.sha256, settings, made.seed)


def _with_seed(path: Path, seed: int) -> Path:
    return path.with_name(f"{path.stem}-seed-{seed}{path.suffix}")


def _window(config: SimulationConfig, records: Sequence[WorkloadRecord]) -> Window | None:
    if config.window is None or not records:
        return None
    arrivals = [record.arrival_time_us for record in records]
    return measured_window(min(arrivals), max(arrivals), config.window.warm_up_us, config.window.cool_down_us)


def _time_of(row: StepRow | SimRequestRow | SimTotals) -> int | None:
    return row.ended_at_us if isinstance(row, StepRow) else None
