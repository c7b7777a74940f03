"""Recommendation: the thread counts for one model file on one machine, and which other file would be faster.

One file on disk for each model file that was looked at, schema `arriero-recommendation-v1`; a server finds it by the
machine and the model file that it loads. It holds for nothing else, so both stand in it as words.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from arriero.core.errors import DataError
from arriero.core.option_kinds import Threads
from arriero.metrics.spread import Spread
from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.cpu_lab.analysis import Quality
from arriero.record.cpu_lab.pretty_json import pretty_json
from arriero.record.strict import Count, Name, Positive, convert, parse_object

SCHEMA: Final = "arriero-recommendation-v1"


class Mix(BenchPart, frozen=True, kw_only=True):
    """The request that the objective is about: its seconds are prompt / prefill rate + generated / decode rate.

    Attributes:
        prompt_tokens, generated_tokens: of it.
        requests: that generate at once; the decode rate is that of all of them together.
    """

    prompt_tokens: Positive
    generated_tokens: Positive
    requests: Positive = 1

    def seconds(self, prefill: float, decode: float) -> float:
        """How long the machine computes for one such request; rates in tokens/s."""
        return self.prompt_tokens / prefill + self.generated_tokens / decode

    @property
    def words(self) -> str:
        """For a person."""
        at_once = f", {self.requests} at once" if self.requests > 1 else ""
        return f"{self.prompt_tokens} prompt tokens and {self.generated_tokens} generated ones{at_once}"


class Counts(BenchPart, frozen=True, kw_only=True):
    """Numbers of threads: for passes of one row, and for all others."""

    decode: Positive
    prefill: Positive

    @property
    def threads(self) -> Threads:
        """As the settings have them."""
        return Threads(self.decode, self.prefill)

    @property
    def words(self) -> str:
        """As `--threads` takes them."""
        return str(self.threads)


class CandidateFile(BenchPart, frozen=True, kw_only=True):
    """One model file.

    Attributes:
        name: base name.
        path: where it lay when it was measured.
        num_bytes: its size.
        sha256: of its content.
        digest: `backend.fingerprint.sample_digest`, which a server can afford at its start.
        weights: the format that it declares.
        is_present: it is the file that the run was started with.
        quality: against the reference of the quality file; null where nobody measured it.
        refused: why it was not considered; null where it was.
    """

    name: Name
    path: Name
    num_bytes: Positive
    sha256: Name
    digest: Name
    weights: str
    is_present: bool
    quality: Quality | None
    refused: str | None


class Judgement(BenchPart, frozen=True, kw_only=True):
    """What paired rounds say of a candidate against what holds without it; ratios are of seconds, lower is faster.

    Attributes:
        baseline: what it was compared with.
        candidate: see there.
        verdict: by `metrics.paired`.
        is_better: the candidate is faster, beyond interval and noise floor.
        ratio: median over pairs of candidate / baseline seconds; null without a pair.
        low, high: the interval that the verdict rests on; null without one.
        floor: relative; what the present setting differs from itself by; null where it was not measured.
        confidence: of the interval, tightened for the number of questions.
        num_pairs: judged.
        reasons: a sentence each.
    """

    baseline: Name
    candidate: Name
    verdict: Name
    is_better: bool
    ratio: float | None
    low: float | None
    high: float | None
    floor: float | None
    confidence: float
    num_pairs: Count
    reasons: tuple[str, ...]

    @property
    def faster(self) -> str:
        """How much faster, in words."""
        if self.ratio is None:
            return "not measured"
        if self.low is None or self.high is None:
            return f"{1 / self.ratio:.2f} times as fast"
        return f"{1 / self.ratio:.2f} times as fast ({1 / self.high:.2f} to {1 / self.low:.2f})"


class Screened(BenchPart, frozen=True, kw_only=True):
    """One file at one number of threads, as the first rounds saw it; null where no round succeeded.

    Attributes:
        threads: for both phases.
        prefill: tokens/s.
        decode: tokens/s.
    """

    file: Name
    threads: Positive
    prefill: Spread | None
    decode: Spread | None


class FileChoice(BenchPart, frozen=True, kw_only=True):
    """What was decided for one file.

    Attributes:
        file: base name.
        counts: that a server should take.
        judged: the screened best counts against the present ones; null where they are the same.
    """

    file: Name
    counts: Counts
    judged: Judgement | None


class RecommendationRun(BenchPart, frozen=True, kw_only=True):
    """One run of `arriero lab recommend`.

    Attributes:
        run_id: of its log.
        made_at: wall clock in UTC, ISO 8601.
        arriero: version.
        evidence: of every figure in it.
        machine: what has to be equal for it to hold, in words.
        mix: of the objective.
        bounds: that quality had to keep, in words.
        present: counts that a server takes without a recommendation.
        files: all of them, the refused ones too.
        screened: the first rounds.
        choices: of the files that were considered.
        best: base name of the recommended file.
        judged: that file against the present one; null where it is the present one.
        num_rounds: screening, then confirming.
        failures: runs that failed.
        busy: why the figures are doubtful; null where nothing says so.
    """

    run_id: Name
    made_at: Name
    arriero: Name
    evidence: Evidence
    machine: dict[str, str]
    mix: Mix
    bounds: tuple[str, ...]
    present: Counts
    files: tuple[CandidateFile, ...]
    screened: tuple[Screened, ...]
    choices: tuple[FileChoice, ...]
    best: Name
    judged: Judgement | None
    num_rounds: tuple[Count, Count]
    failures: Count
    busy: str | None

    def choice(self, name: str) -> FileChoice:
        """Of one of the files that were considered."""
        return next(each for each in self.choices if each.file == name)

    def file(self, name: str) -> CandidateFile:
        """By base name."""
        return next(each for each in self.files if each.name == name)


class Recommendation(BenchPart, frozen=True, kw_only=True):
    """What a server reads.

    Attributes:
        file: the base name of the model file that it is for.
        run: that it comes from.
    """

    schema_version: Literal["arriero-recommendation-v1"] = SCHEMA
    file: Name
    run: RecommendationRun

    @property
    def candidate(self) -> CandidateFile:
        """The file that it is for."""
        return self.run.file(self.file)

    @property
    def counts(self) -> Counts:
        """The thread counts for that file."""
        return self.run.choice(self.file).counts

    @property
    def best(self) -> CandidateFile:
        """The file that the run recommends; this one, perhaps."""
        return self.run.file(self.run.best)

    def differences(self, machine: Mapping[str, str]) -> list[str]:
        """One phrase for each fact about the machine that is otherwise here: its value in the file, then ours."""
        theirs = self.run.machine
        names = [*theirs, *(name for name in machine if name not in theirs)]
        return [
            f"{name}: {theirs.get(name, 'unknown')} there, {machine.get(name, 'unknown')} here"
            for name in names
            if theirs.get(name) != machine.get(name)
        ]


def recommendations_of(run: RecommendationRun) -> tuple[Recommendation, ...]:
    """One for each file that was considered."""
    return tuple(Recommendation(file=choice.file, run=run) for choice in run.choices)


def encode_recommendation(recommendation: Recommendation) -> bytes:
    """The bytes of a file; the same recommendation gives the same ones."""
    return pretty_json(recommendation)


def read_recommendation(path: Path) -> Recommendation:
    """Read a file strictly.

    Raises:
        DataError: it cannot be read, breaks the schema, or does not speak of the file that it names.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise DataError(f"{reason}; name a file that can be read", file=str(path)) from None
    found = convert(parse_object(text, file=str(path)), Recommendation, file=str(path))
    run = found.run
    known, chosen = {each.name for each in run.files}, {each.file for each in run.choices}
    if not chosen <= known or not {found.file, run.best} <= chosen:
        message = "file: speaks of a file that it has no choice for; make it anew with: arriero lab recommend"
        raise DataError(message, file=str(path), field="file")
    return found
