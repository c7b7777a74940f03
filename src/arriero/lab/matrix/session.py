"""run_matrix: one session of a run, from the folder to the summary; also the only way to go on with one."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from arriero.core.errors import DataError
from arriero.lab.matrix.plan import MatrixPlan
from arriero.lab.matrix.runner import MatrixRunner, Surroundings, Tell, still_to_do
from arriero.record.cpu_lab.matrix import MatrixRecord, MatrixSummary
from arriero.record.cpu_lab.run_log import SUMMARY, RunLog, holds_run, read_manifest
from arriero.record.strict import convert, parse_object


class SessionOptions(NamedTuple):
    """How a session begins and ends.

    Attributes:
        resume: go on with the run in the folder; begins one if there is none.
        retry_failures: also do again what did not succeed.
        force: go on although the plan is another.
        repair: set a last line aside that a killed process left without its end.
        sync: wait after each record until the disk has it.
        max_seconds: after which no further invocation begins.
    """

    resume: bool = False
    retry_failures: bool = False
    force: bool = False
    repair: bool = False
    sync: bool = True
    max_seconds: float | None = None


def run_matrix(
    plan: MatrixPlan, folder: Path, around: Surroundings, tell: Tell, options: SessionOptions | None = None
) -> MatrixSummary:
    """Begin a run in a folder, or go on with it, until all is done, the time is over or somebody stops it.

    Raises:
        DataError: the folder holds a run already, or another one, or a bad line.
        KeyboardInterrupt: somebody pressed Ctrl-C; the run can be resumed.
    """
    chosen = options or SessionOptions()
    with open_log(plan, folder, chosen) as log:
        planned = tuple(plan.invocations())
        todo = still_to_do(planned, log.latest, retry_failures=chosen.retry_failures)
        if len(todo) < len(planned):
            tell(f"{len(planned) - len(todo)} of {len(planned)} invocations are recorded already")
        runner = MatrixRunner(plan, log, around, tell, spent_s=spent_seconds(folder), max_seconds=chosen.max_seconds)
        return runner.run(todo)


def open_log(plan: MatrixPlan, folder: Path, options: SessionOptions) -> RunLog[MatrixRecord]:
    """The log to write to; see `RunLog`.

    Raises:
        DataError: as there; also if the folder holds figures of another kind, which nothing may overrule.
    """
    if not (options.resume or options.retry_failures) or not holds_run(folder):
        return RunLog[MatrixRecord].create(folder, MatrixRecord, plan.manifest(), sync=options.sync)
    kept = read_manifest(folder).manifest.get("evidence")
    if kept is not None and kept != str(plan.evidence):
        what = f"holds figures that are {kept}, and these would be {plan.evidence}: kinds are never mixed"
        raise DataError(f"{what}; name another folder", file=str(folder), field="evidence")
    return RunLog[MatrixRecord].resume(
        folder, MatrixRecord, plan.manifest(), force=options.force, repair=options.repair, sync=options.sync
    )


def spent_seconds(folder: Path) -> float:
    """What the sessions before took, by the last summary; 0 without one."""
    try:
        return read_summary(folder).elapsed_seconds
    except DataError:
        return 0.0


def read_summary(folder: Path) -> MatrixSummary:
    """How far a run has come.

    Raises:
        DataError: it has no summary, or one of another form.
    """
    path = folder / SUMMARY
    try:
        values: Mapping[str, object] = parse_object(path.read_bytes(), file=str(path))
    except OSError:
        raise DataError("there is none; name the folder of a run", file=str(path)) from None
    return convert(values, MatrixSummary, file=str(path))
