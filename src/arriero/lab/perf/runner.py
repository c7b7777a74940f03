"""Runs a plan: each invocation ends in one record, whatever happens to it; a run that was stopped goes on later."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from arriero.core.errors import ArrieroError
from arriero.lab.perf.plan import Invocation, PerfPlan
from arriero.lab.perf.profiler import Profiler, Reading, Scratch
from arriero.lab.perf.target import portable_words
from arriero.lab.perf.tools import PLAIN, first_line
from arriero.lab.process import Finished, run_process
from arriero.lab.scratch import scratch_folder
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.perf import Fault, PerfRecord, PerfSummary, Phase, RunStatus
from arriero.record.cpu_lab.run_log import RunLog, Status

_KEPT_CHARACTERS: Final = 16_384
"""Of what a program prints; the beginning and the end of more."""


class Ended(NamedTuple):
    """How an invocation ended, in the words of a record."""

    status: Status
    fault: Fault | None
    reason: str | None
    reading: Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfRunner:
    """What a run needs.

    Attributes:
        plan: what to run.
        profiler: the tool.
        log: where records go.
        folder: of the log; for files that records name.
        conditions: samples the machine.
        tell: is told each line of progress.
        interrupt: set by another thread to stop early.
        retry_failures: run again what has no success, instead of what has no record.
    """

    plan: PerfPlan
    profiler: Profiler
    log: RunLog[PerfRecord]
    folder: Path
    conditions: Callable[[], ConditionSample]
    tell: Callable[[str], None]
    interrupt: threading.Event = field(default_factory=threading.Event)
    retry_failures: bool = False

    def run(self) -> PerfSummary:
        """Do what is not done yet.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C; what was finished is on disk, and the summary says so.
        """
        began_at = time.monotonic()
        try:
            waiting = [each for each in self.plan.invocations() if not self._is_done(each)]
            for number, invocation in enumerate(waiting, start=1):
                self.tell(f"{number}/{len(waiting)} {invocation.invocation_id}")
                record = self._record(invocation)
                if record is None:
                    return self._summarise(RunStatus.INTERRUPTED, began_at)
                self.log.append(record)
                self.tell(_told(record))
                self._summarise(RunStatus.RUNNING, began_at)
        except BaseException:
            self._summarise(RunStatus.INTERRUPTED, began_at)
            raise
        return self._summarise(RunStatus.COMPLETED, began_at)

    def _is_done(self, invocation: Invocation) -> bool:
        record = self.log.latest.get(invocation.invocation_id)
        return record is not None and (record.status is Status.SUCCESS or not self.retry_failures)

    def _record(self, invocation: Invocation) -> PerfRecord | None:
        """One invocation; None if it was interrupted."""
        target = invocation.target
        is_measured = invocation.phase is Phase.MEASURED
        before, started_at = self.conditions(), _now()
        with scratch_folder("perf") as folder:
            scratch = Scratch(folder, self.folder, invocation.stem)
            done = run_process(
                self.profiler.command(target, scratch) if is_measured else target.command,
                timeout_s=self.plan.timeout_s,
                environment={**PLAIN, **target.environment},
                cpus=self.plan.cpus,
                interrupt=self.interrupt,
            )
            if done.interrupted:
                return None
            completed_at = _now()
            ended = self._ended(done, scratch) if is_measured else _unwatched(done)
        return PerfRecord(
            run_id=self.log.run_id,
            invocation_id=invocation.invocation_id,
            mode=self.plan.mode,
            phase=invocation.phase,
            repetition=invocation.repetition,
            case=target.case,
            status=ended.status,
            fault=ended.fault,
            reason=ended.reason,
            started_at=started_at,
            completed_at=completed_at,
            command=portable_words(done.command),
            return_code=done.return_code,
            elapsed_s=done.elapsed_s,
            peak_rss_kib=done.peak_rss_kib,
            stdout=_clipped(done.stdout),
            stderr=_clipped(done.stderr),
            counters=ended.reading.counters,
            attribution=ended.reading.attribution,
            before=before,
            after=self.conditions(),
            environment=self.plan.environment,
            scope=ended.reading.scope,
        )

    def _ended(self, done: Finished, scratch: Scratch) -> Ended:
        wrote = self.profiler.wrote(scratch)
        if done.timed_out or done.return_code != 0:
            fault = Fault.TARGET if wrote or done.timed_out else Fault.TOOL
            return _failed(done, fault, self.profiler.remedy(done.stderr))
        try:
            return Ended(Status.SUCCESS, None, None, self.profiler.read(scratch))
        except ArrieroError as error:
            place = getattr(error, "file", None)
            return Ended(Status.PARSE_ERROR, Fault.TOOL, f"{place}: {error}" if place else str(error), Reading())

    def _summarise(self, status: RunStatus, began_at: float) -> PerfSummary:
        planned = [each.invocation_id for each in self.plan.invocations()]
        records = [self.log.latest[each] for each in planned if each in self.log.latest]
        counts = Counter(record.status for record in records)
        summary = PerfSummary(
            run_id=self.log.run_id,
            run_status=status,
            planned=len(planned),
            completed=len(records),
            successful=counts[Status.SUCCESS],
            failed=counts[Status.FAILED] + counts[Status.PARSE_ERROR],
            timed_out=counts[Status.TIMED_OUT],
            last_completed=max(records, key=lambda each: each.completed_at).invocation_id if records else None,
            elapsed_s=time.monotonic() - began_at,
        )
        self.log.summarise(summary)
        return summary


def _unwatched(done: Finished) -> Ended:
    """A warm-up, which runs without the tool: a failure can only be the target's."""
    if done.timed_out or done.return_code != 0:
        return _failed(done, Fault.TARGET, None)
    return Ended(Status.SUCCESS, None, None, Reading())


def _failed(done: Finished, fault: Fault, remedy: str | None) -> Ended:
    reason = first_line(done)
    status = Status.TIMED_OUT if done.timed_out else Status.FAILED
    return Ended(status, fault, reason if remedy is None else f"{reason}; {remedy}", Reading())


def _told(record: PerfRecord) -> str:
    shown = "" if record.reason is None else f": {record.reason}"
    return f"  {record.status} after {record.elapsed_s:.1f} s{shown}"


def _clipped(text: str) -> str:
    if len(text) <= _KEPT_CHARACTERS:
        return text
    half = _KEPT_CHARACTERS // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
