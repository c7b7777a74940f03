"""Run: screening, confirming, decision; every measurement is on disk before the next one starts.

The order of all runs follows from the seed, and the candidates from the screening's records, so an interrupted run goes
on exactly where it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from arriero.core.version import VERSION
from arriero.lab.analysis.records import company_words
from arriero.lab.recommend.judging import Rounds, confidence_for, floor_of, judge
from arriero.lab.recommend.rounds import RecommendRecord, Setting, Stage, Visit, screening_settings, visits
from arriero.lab.recommend.screening import best_counts, expected_seconds, screen
from arriero.lab.recommend.worker import Measured, Worker
from arriero.record.bench_parts import Evidence
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.recommendation import (
    CandidateFile,
    Counts,
    FileChoice,
    Judgement,
    Mix,
    RecommendationRun,
    Screened,
)
from arriero.record.cpu_lab.run_log import RunLog, Status
from arriero.record.cpu_lab.worker import WorkerOptions

BATCH: Final = 512
"""Rows of a decode call and of a micro-batch, as a server has them by default."""

Sample: TypeAlias = Callable[[], ConditionSample | None]
Tell: TypeAlias = Callable[[int, int, Visit], None]
"""Called before each run with its number, the number of runs of its stage, and what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked.

    Attributes:
        files: all of them; one is the present one, and refused ones are not measured.
        counts: numbers of threads to look at, ascending.
        present: what a server takes without a recommendation.
        mix: of the objective.
        num_screening: rounds of the first stage.
        num_confirming: of the second.
    """

    files: tuple[CandidateFile, ...]
    counts: tuple[int, ...]
    present: Counts
    mix: Mix
    num_screening: int
    num_confirming: int

    @property
    def considered(self) -> tuple[CandidateFile, ...]:
        """Files that may be recommended."""
        return tuple(file for file in self.files if file.refused is None)

    @property
    def present_file(self) -> CandidateFile:
        """The file that is used now."""
        return next(file for file in self.files if file.is_present)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """How to do it; fakes in tests.

    Attributes:
        worker: measures one setting.
        sample: what the machine is like now.
        tell: says what comes next.
    """

    worker: Worker
    sample: Sample
    tell: Tell


class Facts(NamedTuple):
    """What stands beside the figures."""

    machine: dict[str, str]
    bounds: tuple[str, ...]
    busy: str | None


class _Questions(NamedTuple):
    """What the confirming rounds are to answer."""

    best: dict[str, Counts]  # file -> the counts that looked best
    fastest: str  # the file that looked fastest

    def count(self, plan: Plan) -> int:
        threads = sum(counts != plan.present for counts in self.best.values())
        return threads + (self.fastest != plan.present_file.name)


class _Court(NamedTuple):
    """What every verdict rests on."""

    rounds: Rounds
    floor: float | None
    confidence: float

    def judge(self, sides: tuple[Setting, Setting], names: tuple[str, str]) -> Judgement:
        return judge(self.rounds, sides, names, self.floor, self.confidence)


def recommend(log: RunLog[RecommendRecord], plan: Plan, means: Means, facts: Facts) -> RecommendationRun:
    """Measure what is not on disk yet, and decide.

    Raises:
        DataError: the disk does not take a record. KeyboardInterrupt: the worker has ended; the log can be resumed.
    """
    first = screening_settings(plan.considered, plan.counts)
    _measure(log, plan, means, list(visits(Stage.SCREENING, first, plan.num_screening)))
    screened = screen(log.latest.values(), plan.considered, plan.counts)
    questions = _questions(plan, screened)
    num_questions = questions.count(plan)
    if num_questions:
        second = _confirming_settings(plan, questions)
        _measure(log, plan, means, list(visits(Stage.CONFIRMING, second, plan.num_confirming)))
    court = _court(log, plan, num_questions)
    choices = tuple(_choose(plan, court, file.name, questions.best[file.name]) for file in plan.considered)
    judged = _judge_file(plan, court, questions, choices)
    return RecommendationRun(
        run_id=log.run_id,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        arriero=VERSION,
        evidence=Evidence.MEASURED,
        machine=facts.machine,
        mix=plan.mix,
        bounds=facts.bounds,
        present=plan.present,
        files=plan.files,
        screened=screened,
        choices=choices,
        best=questions.fastest if judged is not None and judged.is_better else plan.present_file.name,
        judged=judged,
        num_rounds=(plan.num_screening, plan.num_confirming if num_questions else 0),
        failures=sum(record.status is not Status.SUCCESS for record in log.latest.values()),
        busy=facts.busy or company_words([(record.before, record.after) for record in log.latest.values()]),
    )


def _measure(log: RunLog[RecommendRecord], plan: Plan, means: Means, planned: Sequence[Visit]) -> None:
    paths = {file.name: file.path for file in plan.files}
    for number, visit in enumerate(planned, start=1):
        if visit.invocation_id in log.latest:
            continue
        means.tell(number, len(planned), visit)
        setting = visit.setting
        options = WorkerOptions(
            model=paths[setting.file],
            threads=setting.counts.decode,
            batch_threads=setting.counts.prefill,
            prompt_tokens=plan.mix.prompt_tokens,
            generated_tokens=plan.mix.generated_tokens,
            sequences=plan.mix.requests,
            batch=BATCH,
            micro_batch=BATCH,
            align_work=True,  # as a server has it
        )
        before, started_at = means.sample(), datetime.now(UTC).isoformat(timespec="milliseconds")
        found = means.worker(options)
        log.append(_record(log.run_id, visit, found, started_at, (before, means.sample())))


def _record(
    run_id: str,
    visit: Visit,
    found: Measured,
    started_at: str,
    conditions: tuple[ConditionSample | None, ConditionSample | None],
) -> RecommendRecord:
    return RecommendRecord(
        run_id=run_id,
        invocation_id=visit.invocation_id,
        status=found.status,
        stage=visit.stage,
        round=visit.round,
        place=visit.place,
        file=visit.setting.file,
        counts=visit.setting.counts,
        copy=visit.setting.copy,
        started_at=started_at,
        elapsed_s=found.elapsed_s,
        result=found.result,
        problem=found.problem,
        before=conditions[0],
        after=conditions[1],
    )


def _questions(plan: Plan, screened: Sequence[Screened]) -> _Questions:
    best = {file.name: best_counts(screened, file.name, plan.present, plan.mix) for file in plan.considered}
    seconds = {name: expected_seconds(screened, name, counts, plan.mix) for name, counts in best.items()}
    known = {name: value for name, value in seconds.items() if value is not None}
    present = plan.present_file.name
    return _Questions(best, min(known, key=lambda name: (known[name], name != present), default=present))


def _confirming_settings(plan: Plan, questions: _Questions) -> tuple[Setting, ...]:
    """The present setting twice, then both sides of every question; each setting once."""
    present = Setting(plan.present_file.name, plan.present)
    asked = [present, present._replace(copy=1)]
    for name, counts in questions.best.items():
        if counts != plan.present or name == questions.fastest:
            asked += [Setting(name, plan.present), Setting(name, counts)]
    return tuple(dict.fromkeys(asked))


def _court(log: RunLog[RecommendRecord], plan: Plan, num_questions: int) -> _Court:
    rounds = Rounds(log.latest.values(), plan.mix)
    confidence = confidence_for(num_questions)
    present = Setting(plan.present_file.name, plan.present)
    return _Court(rounds, floor_of(rounds, present, confidence), confidence)


def _choose(plan: Plan, court: _Court, name: str, best: Counts) -> FileChoice:
    """The counts for one file: those that looked best only if the confirming rounds agree."""
    if best == plan.present:
        return FileChoice(file=name, counts=plan.present, judged=None)
    sides = (Setting(name, plan.present), Setting(name, best))
    words = (f"{plan.present.words} threads", f"{best.words} threads")
    judged = court.judge(sides, words)
    return FileChoice(file=name, counts=best if judged.is_better else plan.present, judged=judged)


def _judge_file(plan: Plan, court: _Court, questions: _Questions, choices: Sequence[FileChoice]) -> Judgement | None:
    """The file that looked fastest against the present one, each with the counts that a server gives it from now on.

    Whoever keeps the present file gets its recommended counts all the same, so another file has to beat these: beating
    the present counts alone could recommend what is slower than doing nothing about files.
    """
    if questions.fastest == plan.present_file.name:
        return None
    counts = {choice.file: choice.counts for choice in choices}
    present, other = (Setting(name, counts[name]) for name in (plan.present_file.name, questions.fastest))
    return court.judge((present, other), (_in_words(present), _in_words(other)))


def _in_words(setting: Setting) -> str:
    return f"{setting.file} with {setting.counts.words} threads"
