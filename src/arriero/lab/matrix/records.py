"""From a process that has ended to the record that is kept of it."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from arriero.core.choices import FlashAttention
from arriero.core.errors import DataError
from arriero.lab.matrix.cases import Invocation
from arriero.lab.matrix.executors import Reading
from arriero.lab.matrix.matrix_model import MatrixModel
from arriero.lab.matrix.memory import gnu_time_peak, wrap_in_time
from arriero.lab.matrix.plan import MatrixPlan
from arriero.lab.process import Finished
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.matrix import WARM_UP, MatrixRecord, MemorySource
from arriero.record.cpu_lab.run_log import Status
from arriero.record.provenance import portable_command

_NOT_SAID: Final = "the invocation did not end well"


class Around(NamedTuple):
    """What stood around one invocation.

    Attributes:
        run_id: of the run.
        environment: machine, build and revision.
        started_at: wall clock in UTC.
        completed_at: same.
        before: the machine just before.
        after: just after.
    """

    run_id: str
    environment: LabEnvironment
    started_at: datetime
    completed_at: datetime
    before: ConditionSample | None
    after: ConditionSample | None


class _Outcome(NamedTuple):
    """How an invocation ended, and what it said."""

    status: Status
    reading: Reading
    parse_error: str | None


class _Peak(NamedTuple):
    """A peak of memory, where it comes from, and why there is none."""

    kib: int | None
    source: MemorySource
    reason: str | None


def words_to_run(plan: MatrixPlan, model: MatrixModel, invocation: Invocation) -> tuple[str, ...]:
    """What is started for an invocation."""
    return _wrapped(plan, plan.executor.command(str(model.path), invocation.case))


def words_to_show(plan: MatrixPlan, model: Path, invocation: Invocation) -> tuple[str, ...]:
    """The same without absolute paths: relative to the working folder, or by base name."""
    (shown,) = portable_command([str(model)])
    return tuple(portable_command(_wrapped(plan, plan.executor.command(shown, invocation.case))))


def record_of(
    plan: MatrixPlan, model: MatrixModel, invocation: Invocation, finished: Finished, around: Around
) -> MatrixRecord:
    """The record of an invocation that has ended, however it did."""
    outcome = _outcome(plan, invocation, finished)
    peak = _peak(plan, finished, outcome.reading)
    words = plan.executor.command(model.path.name, invocation.case)
    reading = outcome.reading
    return MatrixRecord(
        run_id=around.run_id,
        case_id=invocation.case.case_id,
        invocation_id=invocation.invocation_id,
        phase=invocation.phase,
        repetition=invocation.number,
        warmup=invocation.phase == WARM_UP,
        started_at=around.started_at.isoformat(timespec="milliseconds"),
        completed_at=around.completed_at.isoformat(timespec="milliseconds"),
        status=outcome.status,
        case=invocation.case,
        command=(Path(words[0]).name, *words[1:]),
        executed_command=words_to_show(plan, model.path, invocation),
        stdout=finished.stdout,
        stderr=finished.stderr,
        return_code=finished.return_code,
        elapsed_seconds=finished.elapsed_s,
        timed_out=finished.timed_out,
        parsed_results=reading.results,
        parse_error=outcome.parse_error,
        model_logical_id=model.model_id,
        model_filename=model.path.name,
        quantization=model.quantization,
        model_sha256=model.sha256,
        model_file_size=model.num_bytes,
        peak_rss_kib=peak.kib,
        reported_kv_cache_bytes=reading.kv_cache_bytes,
        memory_measurement_source=peak.source,
        mmap_enabled=plan.settings.mmap,
        environment=around.environment,
        evidence=plan.evidence,
        executor=plan.executor.kind,
        flash_attention=FlashAttention(plan.settings.flash_attention),
        library=dict(reading.library or plan.executor.library),
        before=around.before,
        after=around.after,
        launch_error=finished.launch_error,
        reasons=_reasons(outcome, peak, around),
    )


def _wrapped(plan: MatrixPlan, command: tuple[str, ...]) -> tuple[str, ...]:
    return command if plan.time_program is None else wrap_in_time(str(plan.time_program), command)


def _outcome(plan: MatrixPlan, invocation: Invocation, finished: Finished) -> _Outcome:
    if finished.timed_out:
        return _Outcome(Status.TIMED_OUT, Reading(()), None)
    if finished.return_code != 0:  # None: it could not be started
        return _Outcome(Status.FAILED, Reading(()), None)
    try:
        return _Outcome(Status.SUCCESS, plan.executor.read(finished, invocation.case), None)
    except DataError as problem:
        return _Outcome(Status.PARSE_ERROR, Reading(()), str(problem))


def _peak(plan: MatrixPlan, finished: Finished, reading: Reading) -> _Peak:
    """GNU time's if it was asked, else what the program measured of itself, else what the kernel kept."""
    if plan.time_program is not None:
        kib = gnu_time_peak(finished.stderr)
        if kib is not None:
            return _Peak(kib, MemorySource.GNU_TIME, None)
    if reading.peak_rss_kib is not None:
        return _Peak(reading.peak_rss_kib, reading.memory_source, None)
    if finished.peak_rss_kib is not None:
        return _Peak(finished.peak_rss_kib, MemorySource.WAIT4, None)
    never = "it could not be started" if finished.launch_error else "not above that of the process that measures"
    return _Peak(None, MemorySource.NONE, reading.reasons.get("peak_rss_kib", never))


def _reasons(outcome: _Outcome, peak: _Peak, around: Around) -> dict[str, str]:
    reading = outcome.reading
    said: Mapping[str, str] = reading.reasons
    found = {
        "peak_rss_kib": peak.reason,
        "reported_kv_cache_bytes": (
            said.get("reported_kv_cache_bytes", _NOT_SAID) if reading.kv_cache_bytes is None else None
        ),
        "before": "not asked for" if around.before is None else None,
        "after": "not asked for" if around.after is None else None,
    }
    return {name: reason for name, reason in found.items() if reason is not None}
