"""From the records of a run to its table; the same figures every time, from `run.jsonl` alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from arriero.core.errors import DataError
from arriero.lab.matrix.plan import planned_of
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.matrix import MEASURED, MatrixRecord
from arriero.record.cpu_lab.normalized import (
    CSV_FILE,
    JSON_FILE,
    ExcludedInvocation,
    NormalizedFile,
    csv_text,
    json_bytes,
    row_of,
)
from arriero.record.cpu_lab.run_log import Status, StoredRun, read_manifest, read_run, replace_file


class Written(NamedTuple):
    """What was written."""

    file: NormalizedFile
    paths: tuple[Path, ...]


def normalize(run: StoredRun[MatrixRecord], *, folder: str) -> NormalizedFile:
    """The table of a run; warm-ups and failures are no rows, and the latest record of each invocation counts.

    Raises:
        DataError: its manifest is none of a matrix, or a record is of another kind than the run says.
    """
    planned = [each for each in planned_of(run.manifest.manifest, file=folder) if each.phase == MEASURED]
    latest = run.latest
    missing = tuple(each.invocation_id for each in planned if each.invocation_id not in latest)
    records = [latest[each.invocation_id] for each in planned if each.invocation_id in latest]
    good = [record for record in records if record.status is Status.SUCCESS]
    return NormalizedFile(
        evidence=_evidence_of(run, records, folder),
        run_id=run.manifest.run_id,
        fingerprint=run.manifest.fingerprint,
        incomplete=bool(missing),
        missing=missing,
        excluded=tuple(_excluded(record) for record in records if record.status is not Status.SUCCESS),
        rows=tuple(row_of(record) for record in good),
        reasons={record.invocation_id: record.reasons for record in good if record.reasons},
    )


def write_normalized(folder: Path, *, partial: bool) -> Written:
    """Read a run anew and write its table, as CSV and as JSON; a table that is there is replaced.

    Args:
        folder: of the run.
        partial: write the table also if measured invocations have no record yet; it says so.

    Raises:
        DataError: no run, a bad line, or invocations that are missing.
    """
    planned_of(read_manifest(folder).manifest, file=str(folder))  # another kind of run is told before its lines are
    found = normalize(read_run(folder, MatrixRecord), folder=str(folder))
    if found.incomplete and not partial:
        message = (
            f"{len(found.missing)} measured invocations have no record, the first is {found.missing[0]}; "
            "go on with --resume, or use --partial"
        )
        raise DataError(message, file=str(folder))
    paths = (folder / CSV_FILE, folder / JSON_FILE)
    try:
        replace_file(paths[0], csv_text(found).encode())
        replace_file(paths[1], json_bytes(found))
    except OSError as error:
        reason = (error.strerror or "an error of the system").lower()
        raise DataError(f"cannot be written ({reason}); make room", file=str(folder)) from None
    return Written(found, paths)


def _evidence_of(run: StoredRun[MatrixRecord], records: Sequence[MatrixRecord], folder: str) -> Evidence:
    """What the figures of a run are, all of them."""
    evidence = Evidence(run.manifest.manifest["evidence"])
    strange = next((record for record in records if record.evidence is not evidence), None)
    if strange is not None:
        what = f"{strange.invocation_id} is {strange.evidence}, and its run {evidence}"
        raise DataError(f"{what}: kinds are never mixed; measure it anew", file=folder, field="evidence")
    return evidence


def _excluded(record: MatrixRecord) -> ExcludedInvocation:
    code = "could not be started" if record.return_code is None else f"ended with status {record.return_code}"
    why = record.launch_error or record.parse_error or ("its time was over" if record.timed_out else code)
    return ExcludedInvocation(invocation_id=record.invocation_id, status=record.status, reason=why)
