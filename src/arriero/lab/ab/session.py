"""A session of a comparison: begin a run or go on with one, and make its result; also anew from its files alone."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from arriero.core.errors import DataError
from arriero.lab.ab.judging import result_of
from arriero.lab.ab.runner import AbRunner, AbSetup, Session, Tell
from arriero.record.bench_result_text import read
from arriero.record.cpu_lab.ab import AbResult, write_ab
from arriero.record.cpu_lab.ab_run import AbManifest, AbRecord, AbSummary
from arriero.record.cpu_lab.run_log import SUMMARY, RunLog, StoredRun, read_run
from arriero.record.strict import convert, parse_object

RESULT: Final = "ab.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How a session treats what is in its folder.

    Attributes:
        resume: go on with the run in the folder.
        force: go on although its manifest differs.
        repair: set a last line that was cut off aside.
    """

    resume: bool = False
    force: bool = False
    repair: bool = False


def run_ab(setup: AbSetup, folder: Path, tell: Tell, options: SessionOptions | None = None) -> AbResult:
    """Measure what is left to measure, and write and return the result.

    Args:
        setup: what is compared.
        folder: of the run; made if it is missing.
        tell: progress, a line each.
        options: see there.

    Raises:
        DataError: the folder holds a run already, or none, or one of something else, or cannot be written.
        KeyboardInterrupt: somebody pressed Ctrl-C; the run can be resumed.
    """
    how = options or SessionOptions()
    with _log(setup, folder, how) as log:
        AbRunner(setup, log, _session(folder, log), tell).run()
    return make_result(folder)


def make_result(folder: Path) -> AbResult:
    """The result of a run on disk, from its manifest, records and summary alone; written beside them.

    Raises:
        DataError: there is no run, or a file breaks its format. ConfigError: the result cannot be written.
    """
    stored, summary = read_run(folder, AbRecord), read_summary(folder)
    require_ab(stored, folder)
    result = result_of(stored, summary)
    write_ab(folder / RESULT, result)
    return result


def read_summary(folder: Path) -> AbSummary:
    """How far a run came.

    Raises:
        DataError: there is no summary, or it breaks its format.
    """
    path = folder / SUMMARY
    return convert(parse_object(read(path), file=str(path)), AbSummary, file=str(path))


def require_ab(stored: StoredRun[AbRecord], folder: Path) -> None:
    """Refuse the run of another command.

    Raises:
        DataError: names the field.
    """
    convert(stored.manifest.manifest, AbManifest, file=str(folder))


def _log(setup: AbSetup, folder: Path, how: SessionOptions) -> RunLog[AbRecord]:
    manifest = msgspec.json.decode(msgspec.json.encode(setup.manifest), type=dict[str, Any])
    if how.resume:
        return RunLog[AbRecord].resume(folder, AbRecord, manifest, force=how.force, repair=how.repair)
    return RunLog[AbRecord].create(folder, AbRecord, manifest)


def _session(folder: Path, log: RunLog[AbRecord]) -> Session:
    records = log.latest.values()
    try:
        known = read_summary(folder)
    except DataError:  # none yet, or it was killed before the first one
        known = None
    return Session(
        number=max((record.session for record in records), default=-1) + 1,
        spent_s=0.0 if known is None else known.seconds,
        started_at=datetime.now(UTC).isoformat(timespec="seconds") if known is None else known.started_at,
    )
