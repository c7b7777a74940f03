"""What `arriero lab ab` writes while it runs: a manifest that has to be equal on resume, and a record for each run.

warm_up   A B A B ...                 in no figure
aa        A against itself, in pairs  the noise floor
ab        A against B, in pairs       the comparison
"""

from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.cpu_lab.conditions import ConditionSample
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.matrix import RunStatus
from arriero.record.cpu_lab.run_log import Status
from arriero.record.strict import Count, Name, Positive, Sha256

MANIFEST_SCHEMA: Final = "arriero-ab-run-v1"
DURATION: Final = "duration_s"  # wall clock of the process, from its start to its end
PEAK_RSS: Final = "peak_rss_kib"

SideName: TypeAlias = Literal["a", "b"]


class AbPhase(StrEnum):
    """What a run is for."""

    WARM_UP = "warm_up"
    AA = "aa"
    AB = "ab"


class RuleSet(StrEnum):
    """By which rules a comparison is judged."""

    ARRIERO = "arriero"
    PUBLISHED = "published"


class VariantFacts(BenchPart, frozen=True, kw_only=True):
    """One side, by content: a run may move to another folder, and a changed file is another variant.

    Attributes:
        name: as in tables.
        kind: `worker` runs the bench worker, `command` any program.
        command: the words that are run, files by base name.
        settings: of the worker, the model by base name; empty for a command.
        environment: variables on top of the caller's, files by base name.
        library: base name -> SHA-256 of the shared libraries in a folder that was named; empty without one.
        files: base name -> SHA-256 of every file that the command or its variables name; a second one of a name has its
            number behind it.
    """

    name: Name
    kind: Literal["worker", "command"]
    command: tuple[str, ...]
    settings: dict[str, Any]
    environment: dict[str, str]
    library: dict[str, Sha256]
    files: dict[str, Sha256]

    @property
    def content(self) -> tuple[Any, ...]:
        """What it does, whatever it is called."""
        return self.kind, self.command, self.settings, self.environment, self.library, self.files


class MetricFacts(BenchPart, frozen=True, kw_only=True):
    """One metric, stated before the run.

    Attributes:
        name: of it; for a command the key in its JSON, such as `points.0.summary.rate`.
        higher_is_better: throughputs yes, durations no.
        decides: whether the verdict rests on it; else it is for information.
    """

    name: Name
    higher_is_better: bool
    decides: bool = True


class RuleFacts(BenchPart, frozen=True, kw_only=True):
    """The rules, stated before the run.

    Attributes:
        name: of the set.
        error_rate: of the whole comparison; null where the set keeps none.
        num_looks: how often, at most, it is judged while pairs are added; a look that decides ends the run.
        margin: the smallest relative difference that matters.
        guard: relative loss of a median that forbids POSITIVE; null where the set has its own.
        same_text: both sides have to give the same greedy answer, or there is no verdict.
    """

    name: RuleSet
    error_rate: float | None
    num_looks: Positive
    margin: float | None
    guard: float | None
    same_text: bool = False


class AbManifest(BenchPart, frozen=True, kw_only=True):
    """What a run is; two with equal manifests are one.

    Attributes:
        schema: of this.
        seed: of the order within pairs, and of the bootstraps and permutations of arriero's rules.
        num_warm_ups: of each side.
        num_aa_pairs: for the noise floor.
        num_pairs: of the comparison.
        cpus: that runs are pinned to; null leaves them free.
        timeout_s: of one run.
        a, b: the two sides.
        metrics: that are compared, the deciding ones first.
        rules: that judge them.
        environment: fingerprint of the machine and the build in use.
        inherited: variables of the caller that change how llama.cpp computes, such as `OMP_NUM_THREADS`; both sides
            get them, absolute paths cut.
    """

    schema: Literal["arriero-ab-run-v1"] = MANIFEST_SCHEMA
    seed: int
    num_warm_ups: Count
    num_aa_pairs: Count
    num_pairs: Count
    cpus: tuple[Count, ...] | None
    timeout_s: float
    a: VariantFacts
    b: VariantFacts
    metrics: tuple[MetricFacts, ...]
    rules: RuleFacts
    environment: Sha256
    inherited: dict[str, str]

    @property
    def is_aa(self) -> bool:
        """Whether both sides are the same."""
        return self.a.content == self.b.content

    @property
    def deciding(self) -> tuple[MetricFacts, ...]:
        """The metrics that the verdict rests on."""
        return tuple(metric for metric in self.metrics if metric.decides)


class AbRecord(BenchPart, frozen=True, kw_only=True):
    """One run that has ended, however it did.

    Attributes:
        run_id: of the whole run.
        invocation_id: `PHASE:NUMBER:SIDE`.
        status: how it ended.
        phase: what it was for.
        pair: number within the phase, from 0; of a warm-up its round.
        side: of the pair.
        variant: what ran; `a` on both sides of an A/A pair.
        place: first or second in its pair, 0 or 1.
        execution_index: counts everything that was planned, from 0.
        session: counts the starts of the runner, from 0; two sides of a pair can lie in two.
        started_at, completed_at: wall clock in UTC, for reading only.
        command: the exact words, absolute paths cut.
        environment: the variables that were set, absolute paths cut.
        cpus: that it was pinned to.
        return_code: null if it could not be started.
        elapsed_s: wall clock of the process.
        user_s, system_s: CPU time; null if it could not be started.
        peak_rss_kib: null where it cannot be told.
        values: metric -> figure; empty unless it succeeded.
        text_sha256: of the greedy answer; null if none was asked for.
        text_tokens: its tokens.
        library: base name -> SHA-256 of the llama.cpp that it really loaded; empty where it does not say.
        problem: why it is no success; null for one.
        stdout, stderr: what it wrote, also if it was ended.
        before, after: the machine on both sides of it; null where nobody looked.
    """

    run_id: Name
    invocation_id: Name
    status: Status
    phase: AbPhase
    pair: Count
    side: SideName
    variant: SideName
    place: Literal[0, 1]
    execution_index: Count
    session: Count
    started_at: Name
    completed_at: Name
    command: tuple[str, ...]
    environment: dict[str, str]
    cpus: tuple[Count, ...] | None
    return_code: int | None
    elapsed_s: float
    user_s: float | None
    system_s: float | None
    peak_rss_kib: Count | None
    values: dict[str, float]
    text_sha256: str | None
    text_tokens: tuple[int, ...]
    library: dict[str, str]
    problem: str | None
    stdout: str
    stderr: str
    before: ConditionSample | None
    after: ConditionSample | None


class AbSummary(BenchPart, frozen=True, kw_only=True):
    """How far a run has come; replaced after every record.

    Attributes:
        run_id: of the run.
        run_status: how it goes.
        planned: runs in all.
        succeeded, failed, timed_out: by their latest record.
        last: the last one that ended; null before the first.
        stopped_early: an interim look decided, and the rest was not run.
        error: why it failed.
        seconds: that all sessions took so far.
        command: the words that started the latest session, absolute paths cut.
        started_at: wall clock in UTC of the first session.
        environment: machine, build and revision of the latest session.
        evidence: what the figures are.
    """

    run_id: Name
    run_status: RunStatus
    planned: Count
    succeeded: Count
    failed: Count
    timed_out: Count
    last: str | None
    stopped_early: bool
    error: str | None
    seconds: float
    command: tuple[str, ...]
    started_at: Name
    environment: LabEnvironment
    evidence: Evidence = Evidence.END_TO_END
