"""AbRunner: works through the schedule of a comparison, one process at a time, and keeps a record of each.

Whatever does not succeed stops the run: a pair with one side is no pair, and what failed once will mostly fail again.
Its record is kept, and a resumed run does it once more. A run that was killed has left no record of what was under
way, so a resumed one loses nothing and counts nothing twice.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError, DataError
from arriero.lab.ab.provenance import check_library, shown_command, shown_variables, variant_facts
from arriero.lab.ab.schedule import Invocation, schedule
from arriero.lab.ab.series import looks_decided
from arriero.lab.ab.variants import Reading, Variant, with_memory
from arriero.lab.process import Finished, run_process
from arriero.record.cpu_lab.ab_run import AbManifest, AbPhase, AbRecord, AbSummary, SideName, VariantFacts
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.matrix import RunStatus
from arriero.record.cpu_lab.run_log import RunLog, Status

_KEPT_TEXT: Final = 20_000  # characters of each output that a record keeps: its end

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbSetup:
    """What is compared.

    Attributes:
        manifest: stated before the run.
        variants: the two sides.
        environment: machine, build and revision.
        command: the words that started this session, absolute paths cut.
        sample: the machine's condition now; None leaves it out.
    """

    manifest: AbManifest
    variants: Mapping[SideName, Variant]
    environment: LabEnvironment
    command: tuple[str, ...]
    sample: Callable[[], ConditionSample] | None


class Session(NamedTuple):
    """Where a run stands when a session of it begins."""

    number: int  # from 0
    spent_s: float  # that earlier ones took
    started_at: str  # of the first


class _Moments(NamedTuple):
    """What lies around a run."""

    started_at: str
    completed_at: str
    before: ConditionSample | None
    after: ConditionSample | None


class AbRunner:
    """One session of a run; the log stays its owner's."""

    def __init__(self, setup: AbSetup, log: RunLog[AbRecord], session: Session, tell: Tell) -> None:
        """Nothing runs yet."""
        self._setup = setup
        self._log = log
        self._session = session
        self._tell = tell
        self._last_sample: ConditionSample | None = None
        self._took: list[float] = []
        self._began_at = time.monotonic()

    def run(self) -> AbSummary:
        """Do what is left; the summary as it then is.

        Raises:
            KeyboardInterrupt: somebody pressed Ctrl-C; the run can be resumed.
            DataError: a record cannot be written.
        """
        self._summarise(RunStatus.RUNNING)
        try:
            problem, is_early = self._work_through(schedule(self._setup.manifest))
        except KeyboardInterrupt:
            self._summarise(RunStatus.INTERRUPTED)
            raise
        problem = problem or self._changed()
        status = RunStatus.COMPLETED if problem is None else RunStatus.FAILED
        return self._summarise(status, problem, stopped_early=is_early)

    def _work_through(self, planned: Sequence[Invocation]) -> tuple[str | None, bool]:
        """What stopped it, and whether a look decided."""
        for each in planned:
            known = self._log.latest.get(each.invocation_id)
            if known is None or known.status is not Status.SUCCESS:
                at = f"[{each.execution_index + 1}/{len(planned)}] {each.invocation_id}"
                self._tell(f"{at} begins{self._time_left(len(planned) - each.execution_index)}")
                record = self._one(each)
                self._tell(f"{at} {outcome_words(record)}")
                self._summarise(RunStatus.RUNNING)
                if record.status is not Status.SUCCESS:
                    return f"{each.invocation_id}: {record.problem}", False
            if each.phase is AbPhase.AB and each.place == 1 and self._looks_decided(each.pair + 1):
                self._tell(f"decided after {each.pair + 1} of {self._setup.manifest.num_pairs} pairs")
                return None, each.pair + 1 < self._setup.manifest.num_pairs
        return None, False

    def _looks_decided(self, num_pairs: int) -> bool:
        return looks_decided(self._setup.manifest, self._log.latest, num_pairs)

    def _one(self, each: Invocation) -> AbRecord:
        """Run it, and keep a record of that."""
        variant = self._setup.variants[each.variant]
        before, started_at = self._last_sample or self._sample(), _now()
        finished = run_process(
            variant.target.command,
            timeout_s=self._setup.manifest.timeout_s,
            environment=variant.variables,
            cpus=self._setup.manifest.cpus,
        )
        completed_at = _now()
        self._last_sample = after = self._sample()
        self._took.append(finished.elapsed_s)
        moments = _Moments(started_at=started_at, completed_at=completed_at, before=before, after=after)
        record = self._record(each, variant, finished, moments)
        self._log.append(record)
        return record

    def _record(self, each: Invocation, variant: Variant, finished: Finished, moments: _Moments) -> AbRecord:
        status, problem, reading = self._read(each, variant, finished)
        return AbRecord(
            run_id=self._log.run_id,
            invocation_id=each.invocation_id,
            status=status,
            phase=each.phase,
            pair=each.pair,
            side=each.side,
            variant=each.variant,
            place=each.place,
            execution_index=each.execution_index,
            session=self._session.number,
            started_at=moments.started_at,
            completed_at=moments.completed_at,
            command=shown_command(variant),
            environment=shown_variables(variant),
            cpus=self._setup.manifest.cpus,
            return_code=finished.return_code,
            elapsed_s=finished.elapsed_s,
            user_s=None if finished.usage is None else finished.usage.user_s,
            system_s=None if finished.usage is None else finished.usage.system_s,
            peak_rss_kib=reading.peak_rss_kib or finished.peak_rss_kib,
            values=with_memory(reading, finished) if status is Status.SUCCESS else {},
            text_sha256=reading.text_sha256,
            text_tokens=reading.text_tokens,
            library=dict(reading.library),
            problem=problem,
            stdout=finished.stdout[-_KEPT_TEXT:],
            stderr=finished.stderr[-_KEPT_TEXT:],
            before=moments.before,
            after=moments.after,
        )

    def _read(self, each: Invocation, variant: Variant, finished: Finished) -> tuple[Status, str | None, Reading]:
        """How a run ended, why that is no success, and what it gave."""
        nothing = Reading(values={})
        if finished.timed_out:
            return Status.TIMED_OUT, f"not done after {self._setup.manifest.timeout_s:g} s", nothing
        if finished.launch_error is not None:
            return Status.FAILED, finished.launch_error, nothing
        if finished.return_code != 0:
            last = finished.stderr.strip().rpartition("\n")[2]
            return Status.FAILED, f"ended with status {finished.return_code}{f' ({last})' if last else ''}", nothing
        try:
            reading = variant.target.read(finished)
            if variant.library is not None:
                check_library(reading.library, self._facts(each.variant).library)
        except DataError as error:
            return Status.PARSE_ERROR, str(error), nothing
        figures = with_memory(reading, finished)
        missing = [metric.name for metric in self._setup.manifest.deciding if metric.name not in figures]
        if missing:
            return Status.PARSE_ERROR, f"it says nothing of {', '.join(missing)}", reading
        return Status.SUCCESS, None, reading

    def _facts(self, side: SideName) -> VariantFacts:
        return self._setup.manifest.a if side == "a" else self._setup.manifest.b

    def _changed(self) -> str | None:
        """Whether a file of a variant is another one now than when the run began."""
        for side, variant in self._setup.variants.items():
            try:
                now = variant_facts(variant)
            except ConfigError as error:
                return str(error)
            known = {**self._facts(side).files, **self._facts(side).library}
            names = [name for name, sha256 in {**now.files, **now.library}.items() if known.get(name, sha256) != sha256]
            if names:
                outputs = "if the command writes it, name it behind --out"
                return f"{side}: {', '.join(names)} was changed while it ran; begin another run, or {outputs}"
        return None

    def _sample(self) -> ConditionSample | None:
        return None if self._setup.sample is None else self._setup.sample()

    def _time_left(self, num_runs: int) -> str:
        if not self._took:
            return ""
        seconds = fmean(self._took) * num_runs
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"

    def _summarise(self, status: RunStatus, error: str | None = None, *, stopped_early: bool = False) -> AbSummary:
        planned = {each.invocation_id for each in schedule(self._setup.manifest)}
        records = [record for record in self._log.latest.values() if record.invocation_id in planned]
        count = Counter(record.status for record in records)
        last = max(records, key=lambda record: record.execution_index, default=None)
        summary = AbSummary(
            run_id=self._log.run_id,
            run_status=status,
            planned=len(planned),
            succeeded=count[Status.SUCCESS],
            failed=count[Status.FAILED] + count[Status.PARSE_ERROR],
            timed_out=count[Status.TIMED_OUT],
            last=None if last is None else last.invocation_id,
            stopped_early=stopped_early,
            error=error,
            seconds=round(self._session.spent_s + time.monotonic() - self._began_at, 3),
            command=self._setup.command,
            started_at=self._session.started_at,
            environment=self._setup.environment,
        )
        self._log.summarise(summary)
        return summary


def outcome_words(record: AbRecord) -> str:
    """How a run ended, in a few words."""
    took = f"in {record.elapsed_s:.1f} s"
    if record.status is not Status.SUCCESS:
        return f"{record.status} {took}: {record.problem}"
    figures = (f"{name} {value:,.4g}" for name, value in record.values.items() if not name.startswith("duration"))
    return f"{took} {', '.join(figures)}".rstrip()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
