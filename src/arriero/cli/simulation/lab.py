"""One run of the published serving lab: its inputs, checked; its rows, reconciled while they are written."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.cli.simulation.output import new_file
from arriero.cli.simulation.simulators import LabSimulator
from arriero.cli.simulation.tracking import tracked, watched
from arriero.core.errors import DataError
from arriero.metrics.lab_summary import LabLife
from arriero.record.lab_check import LabChecker
from arriero.record.lab_config import FCFS_MODE, LabConfig
from arriero.record.lab_envelope import check_envelope
from arriero.record.lab_file import LabResult, lab_life
from arriero.record.lab_matrix import find_below
from arriero.record.lab_place import Place
from arriero.record.lab_rows import IterationRow, LabRow, RequestRow, encode_row
from arriero.record.lab_run import WorkloadManifest, encode_run
from arriero.record.provenance import lab_run_row
from arriero.sim.serving_lab import RefusedRun
from arriero.workload.files import Workload, read_workload
from arriero.workload.manifest import Manifest, check_manifest, make_manifest, read_manifest
from arriero.workload.records import WorkloadRecord, numbered

FOREIGN: Final = "unknown"


class LabInputs(NamedTuple):
    """What one run needs."""

    config: LabConfig
    records: tuple[WorkloadRecord, ...]  # numbered: by (arrival, id)
    manifest: WorkloadManifest
    config_file: Path
    workload_file: Path
    lines: tuple[WorkloadRecord, ...]  # the same records, in the order of the file

    def placed(self, error: DataError) -> DataError:
        """An error of the run, with the file and the line that it is about."""
        if not isinstance(error, RefusedRun):
            error.file = error.file or str(self.config_file)
            return error
        refused = self.records[error.number - 1]
        line = 1 + next(number for number, record in enumerate(self.lines) if record is refused)
        message = f"JSONL line {line}: {error}"
        return DataError(message, file=str(self.workload_file), line=line, field=error.field)


class Files(NamedTuple):
    """Where a configuration and its workload stand."""

    config: Path
    workload: Path | None  # None: where the configuration says, below the root
    manifest: Path | None
    root: Path


def load(config: LabConfig, files: Files) -> LabInputs:
    """Read and check workload and manifest.

    A workload that is named without a manifest, and has none beside it, gets one that says its arrivals as they stand.

    Raises:
        DataError: a file cannot be used, or they do not belong together.
    """
    place = str(files.config)
    manifest_path = files.manifest
    if files.workload is None:
        path = find_below(files.root, config.workload.path, file=place, field="workload.path")
        if manifest_path is None:
            asked = config.workload.manifest_path
            manifest_path = find_below(files.root, asked, file=place, field="workload.manifest_path")
    else:
        path = files.workload
        beside = path.with_name(f"{path.name.removesuffix('.jsonl')}.manifest.json")
        manifest_path = manifest_path or (beside if beside.exists() else None)
    workload = read_workload(path)
    manifest = made_up(workload, config.run_seed, str(path)) if manifest_path is None else read_manifest(manifest_path)
    check_manifest(manifest, workload, run_seed=config.run_seed, file=str(manifest_path or path))
    published = msgspec.convert(msgspec.to_builtins(manifest), WorkloadManifest)
    return LabInputs(config, tuple(numbered(workload.records)), published, files.config, path, workload.records)


def made_up(workload: Workload, seed: int, file: str) -> Manifest:
    """A manifest for a workload of unknown origin: its arrivals as they stand.

    Raises:
        DataError: its requests are of several classes, or not in the order of arrival, which no manifest can say.
    """
    records = workload.records
    known = str(records[0].workload_class) if records else "mixed"
    for line, (before, record) in enumerate(pairwise(records), start=2):
        if str(record.workload_class) != known:
            what = f"is {record.workload_class} after {known}; use one workload_class a file"
            raise _at(line, "workload_class", what, file)
        if record.arrival_time_us < before.arrival_time_us:
            what = "lies before that of the line before; sort the lines, or name a --manifest"
            raise _at(line, "arrival_time_us", what, file)
    config = {
        "schema_version": "serving-workload-v1",
        "workload_class": known,
        "request_count": len(records),
        "seed": seed,
        "arrival": {"mode": "manual", "timestamps_us": [record.arrival_time_us for record in records]},
    }
    return make_manifest(FOREIGN, config, workload.sha256)


def _at(line: int, field: str, what: str, file: str) -> DataError:
    return DataError(f"JSONL line {line}: {field}: {what}", file=file, line=line, field=field)


def run_lab(
    inputs: LabInputs, out: Path, simulate: LabSimulator, command: Sequence[str], *, force: bool, with_iterations: bool
) -> LabResult:
    """Simulate, reconcile and write; the file appears whole or not at all.

    Raises:
        DataError: the run is refused as a whole, or its rows do not fit together, which is a fault of ours.
    """
    try:
        return _run_lab(inputs, out, simulate, command, force=force, with_iterations=with_iterations)
    except DataError as error:
        raise inputs.placed(error) from None


def _run_lab(
    inputs: LabInputs, out: Path, simulate: LabSimulator, command: Sequence[str], *, force: bool, with_iterations: bool
) -> LabResult:
    config = inputs.config
    run = lab_run_row(config, inputs.manifest, command)
    checker = LabChecker(config, str(out), with_iterations=with_iterations)
    requests: list[LabLife] = []
    num_iterations, line = 0, 1
    rows = simulate(config, inputs.records, with_iterations=with_iterations)
    last_arrival = inputs.records[-1].arrival_time_us if inputs.records else 0
    with new_file(out, force=force) as file:
        file.write(encode_run(run) + b"\n")
        is_traced = with_iterations and config.execution_mode != FCFS_MODE
        for row in tracked(rows, config.name, last_arrival, _time_of) if is_traced else watched(rows, config.name):
            line += 1
            checker.add(row, line)
            if isinstance(row, IterationRow):
                num_iterations += 1
            elif isinstance(row, RequestRow):
                check_envelope(row, inputs.records[len(requests)], Place(str(out), line))
                requests.append(lab_life(row))
            file.write(encode_row(row) + b"\n")
        summary = checker.finish(line)
    return LabResult(run, config, num_iterations, tuple(requests), summary)


def _time_of(row: LabRow) -> int | None:
    return row.end_time_us if isinstance(row, IterationRow) else None
