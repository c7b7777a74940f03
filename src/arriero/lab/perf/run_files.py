"""Runs of the profiler as they are on disk: records, and the stacks that they name."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arriero.core.errors import DataError
from arriero.record.cpu_lab.folded_stacks import FoldedStacks, decode_stacks
from arriero.record.cpu_lab.perf import SCHEMA, PerfRecord
from arriero.record.cpu_lab.perf_attribution import StacksFile
from arriero.record.cpu_lab.run_log import StoredRun, read_manifest, read_run


@dataclass(frozen=True, slots=True)
class PerfFolder:
    """One run.

    Attributes:
        folder: where it is.
        run: manifest and records.
    """

    folder: Path
    run: StoredRun[PerfRecord]

    @property
    def counted(self) -> tuple[PerfRecord, ...]:
        """Measured successes: the latest record of each invocation."""
        return tuple(record for record in self.run.latest.values() if record.counts)

    @property
    def settings(self) -> dict[str, Any]:
        """What the run was told."""
        return self.run.manifest.manifest

    def stacks(self, file: StacksFile) -> FoldedStacks:
        """The stacks that a record names.

        Raises:
            DataError: the file is missing or was changed.
        """
        path = self.folder / file.name
        try:
            data = path.read_bytes()
        except OSError:
            raise DataError(
                "the record names it, and it cannot be read; is the folder whole?", file=str(path)
            ) from None
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise DataError("is not what was recorded (its SHA-256 differs); profile again", file=str(path))
        return decode_stacks(data, file=str(path))


def read_folders(folders: Sequence[Path]) -> tuple[PerfFolder, ...]:
    """Every run.

    Raises:
        DataError: a folder holds no run of the profiler, a line is bad, or one run is named twice.
    """
    found = tuple(map(_read, folders))
    ids = [each.run.manifest.run_id for each in found]
    twice = next((each for each, run_id in zip(found, ids, strict=True) if ids.count(run_id) > 1), None)
    if twice is not None:
        raise DataError("its run is named twice; name each once", file=str(twice.folder))
    return found


def _read(folder: Path) -> PerfFolder:
    """One run; that it is another command's is told before its lines are complained about."""
    schema = read_manifest(folder).manifest.get("schema")
    if schema != SCHEMA:
        what = f"is the run of something else ({schema}), not of the profiler; name a folder of `lab perf`"
        raise DataError(what, file=str(folder))
    return PerfFolder(folder, read_run(folder, PerfRecord))
