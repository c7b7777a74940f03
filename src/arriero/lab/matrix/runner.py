"""MatrixRunner: works through the invocations of a plan, one at a time, and keeps a record of each.

    to do ──▶ tell ──▶ conditions ──▶ run ──▶ conditions ──▶ record on disk ──▶ summary ──▶ tell
                                       │
                                       └ Ctrl-C: the child ends, nothing is recorded, the summary says so

A record is written when its process has ended and before the next one starts. So whenever this process is killed, what
is on disk is a beginning of the work, and the rest can be done later.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from arriero.lab.matrix.cases import Invocation
from arriero.lab.matrix.plan import MatrixPlan
from arriero.lab.matrix.records import Around, record_of, words_to_run
from arriero.lab.matrix.time_left import TimeLeft, in_words
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.matrix import MatrixRecord, MatrixSummary, RunStatus
from arriero.record.cpu_lab.run_log import RunLog, Status, fingerprint

Tell = Callable[[str], None]


class Surroundings(NamedTuple):
    """What a runner asks about the world.

    Attributes:
        environment: machine, build and revision, read once.
        sample: the machine's condition now; None leaves it out.
        clock: seconds, monotonic.
    """

    environment: LabEnvironment
    sample: Callable[[], ConditionSample] | None
    clock: Callable[[], float] = time.monotonic


class MatrixRunner:
    """One session of a run; the log stays its owner's."""

    def __init__(
        self,
        plan: MatrixPlan,
        log: RunLog[MatrixRecord],
        around: Surroundings,
        tell: Tell,
        *,
        spent_s: float = 0.0,
        max_seconds: float | None = None,
    ) -> None:
        """Nothing runs yet.

        Args:
            plan: what to do.
            log: where it is kept; what it holds already is not done again.
            around: the world.
            tell: progress, a line each.
            spent_s: that earlier sessions took.
            max_seconds: after which no further invocation begins.
        """
        self._plan = plan
        self._log = log
        self._around = around
        self._tell = tell
        self._spent_s = spent_s
        self._max_seconds = max_seconds
        self._models = {model.model_id: model for model in plan.models}
        self._planned = tuple(plan.invocations())
        self._time_left = TimeLeft()
        self._last_sample: ConditionSample | None = None
        self._began_at = around.clock()

    def run(self, todo: Sequence[Invocation]) -> MatrixSummary:
        """Do these, in their order; the summary as it then is.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C; the run can be resumed.
            DataError: a record cannot be written.
        """
        status = RunStatus.FAILED  # unless it turns out otherwise
        self._learn()
        try:
            status = self._work_through(todo)
        except KeyboardInterrupt:
            status = RunStatus.INTERRUPTED
            raise
        finally:
            summary = self._summarise(status)
        return summary

    def _work_through(self, todo: Sequence[Invocation]) -> RunStatus:
        self._summarise(RunStatus.RUNNING)
        for place, invocation in enumerate(todo):
            if self._max_seconds is not None and self._elapsed() >= self._max_seconds:
                left = len(todo) - place
                self._tell(
                    f"stopped: {self._max_seconds:g} s are over and {left} invocations are left; --resume goes on"
                )
                return RunStatus.FAILED
            at = f"[{place + 1}/{len(todo)}] {invocation.invocation_id}"
            self._tell(f"{at}: begins, {in_words(self._time_left.left_s(todo[place:]))}")
            record = self._one(invocation)
            self._summarise(RunStatus.RUNNING)
            self._tell(f"{at}: {outcome_words(record)}, {in_words(self._time_left.left_s(todo[place + 1 :]))}")
        return RunStatus.COMPLETED

    def _one(self, invocation: Invocation) -> MatrixRecord:
        model = self._models[invocation.model_id]
        began_at = self._around.clock()
        before = self._sample_before()
        started_at = datetime.now(UTC)
        finished = self._plan.executor.run(words_to_run(self._plan, model, invocation), self._plan.timeout_s)
        completed_at = datetime.now(UTC)
        after = self._sample_after()
        around = Around(self._log.run_id, self._around.environment, started_at, completed_at, before, after)
        record = record_of(self._plan, model, invocation, finished, around)
        self._log.append(record)
        self._time_left.note(invocation, self._around.clock() - began_at)
        return record

    def _sample_before(self) -> ConditionSample | None:
        """The sample after the last invocation is the one before this: nothing ran in between."""
        if self._last_sample is not None:
            return self._last_sample
        return None if self._around.sample is None else self._around.sample()

    def _sample_after(self) -> ConditionSample | None:
        self._last_sample = None if self._around.sample is None else self._around.sample()
        return self._last_sample

    def _learn(self) -> None:
        """What earlier sessions took is the best guess for what is left."""
        latest = self._log.latest
        for each in self._planned:
            if each.invocation_id in latest:
                self._time_left.note(each, latest[each.invocation_id].elapsed_seconds)

    def _elapsed(self) -> float:
        return self._around.clock() - self._began_at

    def _summarise(self, status: RunStatus) -> MatrixSummary:
        found = self._log.latest
        records = [found[each.invocation_id] for each in self._planned if each.invocation_id in found]
        count = {status: sum(record.status is status for record in records) for status in Status}
        last = max(records, key=lambda record: record.completed_at, default=None)
        summary = MatrixSummary(
            run_id=self._log.run_id,
            config_fingerprint=fingerprint(self._plan.manifest()),
            planned_invocations=len(self._planned),
            completed_invocations=len(records),
            successful_invocations=count[Status.SUCCESS],
            failed_invocations=count[Status.FAILED] + count[Status.PARSE_ERROR],
            timed_out_invocations=count[Status.TIMED_OUT],
            last_completed_case=None if last is None else last.case_id,
            elapsed_seconds=round(self._spent_s + self._elapsed(), 3),
            run_status=status,
            max_total_seconds=self._max_seconds,
        )
        self._log.summarise(summary)
        return summary


def still_to_do(
    planned: Sequence[Invocation], latest: Mapping[str, MatrixRecord], *, retry_failures: bool
) -> tuple[Invocation, ...]:
    """Those without a record; also those whose latest record is no success, if they are to be tried again."""
    return tuple(
        each
        for each in planned
        if (record := latest.get(each.invocation_id)) is None
        or (retry_failures and record.status is not Status.SUCCESS)
    )


def outcome_words(record: MatrixRecord) -> str:
    """How an invocation ended, in a few words."""
    took = f"in {record.elapsed_seconds:.1f} s"
    if record.status is Status.SUCCESS:
        result = record.parsed_results[0]
        rates = (
            ("prompt", result.prompt_tokens_per_second),
            ("generation", result.generation_tokens_per_second),
        )
        words = ", ".join(f"{name} {rate:.2f} tok/s" for name, rate in rates if rate is not None)
        return f"success {took}, {words}"
    why = record.launch_error or record.parse_error or record.stderr.strip().rpartition("\n")[2]
    shown = f" ({why})" if why else ""
    return f"{record.status} {took}{shown}"
