"""AbResult: the verdict of a paired comparison of two variants and everything that it rests on, `arriero-ab-v1`.

It is made from the manifest and the records of a run, and can be made again from them.
"""

from typing import Final, Literal

from arriero.metrics.paired_percent import PairedPercent
from arriero.metrics.paired_verdict import NoiseFloor, PairedVerdict, Verdict
from arriero.metrics.published_verdict import WORDS, Word
from arriero.record.bench_parts import BenchPart, Evidence, RunFacts
from arriero.record.bench_result import broken
from arriero.record.cpu_lab.ab_run import AbManifest, MetricFacts
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.result_file import ResultFile
from arriero.record.cpu_lab.run_log import Status
from arriero.record.strict import Count, Name, Positive, Sha256

SCHEMA: Final = "arriero-ab-v1"


class PowerFacts(BenchPart, frozen=True, kw_only=True):
    """What this machine can resolve, from the spread of the A/A pairs.

    Attributes:
        spread: standard deviation of the logarithm of an A/A ratio.
        num_aa_pairs: it rests on.
        power: chance to resolve an effect of the sizes below.
        confidence: of the interval.
        smallest_effect: relative, that the pairs of this run resolve; null if they are too few for any.
        effect: relative, that was asked about.
        pairs: that resolve it, after as many A/A pairs; null for more than one would run.
        pairs_least, pairs_most: the same with the ends of the spread's own 95 % interval.
    """

    spread: float
    num_aa_pairs: Count
    power: float
    confidence: float
    smallest_effect: float | None
    effect: float
    pairs: Positive | None
    pairs_least: Positive | None
    pairs_most: Positive | None


class MetricResult(BenchPart, frozen=True, kw_only=True):
    """One metric.

    Attributes:
        metric: as stated before the run.
        ab: published figures of the comparison; null unless every pair has a figure above 0 on both sides.
        aa: the same of the A/A run.
        verdict: of arriero's rules on this metric; null under the published ones, which judge all metrics together,
            and for a metric that does not decide.
        floor: noise floor of the A/A run; null without one, and wherever `verdict` is.
        power: what could be resolved; null without two A/A pairs, and for a metric that does not decide.
        reasons: name of a field that is null -> why.
    """

    metric: MetricFacts
    ab: PairedPercent | None
    aa: PairedPercent | None
    verdict: PairedVerdict | None
    floor: NoiseFloor | None
    power: PowerFacts | None
    reasons: dict[str, str]

    @property
    def shown_floor(self) -> float | None:
        """Relative: the noise floor; where the rules have none, the A/A interval's end that lies further from 0."""
        if self.floor is not None:
            return self.floor.value
        if self.aa is None:
            return None
        interval = self.aa.bootstrap.percentile
        return max(abs(interval.low), abs(interval.high)) / 100


class OutputFacts(BenchPart, frozen=True, kw_only=True):
    """The greedy answers of both sides to one fixed prompt.

    Attributes:
        num_runs: that answered.
        a_sha256, b_sha256: of every different text of a side, in the order of appearance; one each is what one expects.
        equal: all of them are one text.
        differs_at: number of the first token in which the first texts of both sides differ, from 0; null if none does.
        a_tokens, b_tokens: some tokens from there on.
        num_tokens: of the shorter one.
    """

    num_runs: Count
    a_sha256: tuple[str, ...]
    b_sha256: tuple[str, ...]
    equal: bool
    differs_at: Count | None
    a_tokens: tuple[int, ...]
    b_tokens: tuple[int, ...]
    num_tokens: Count


class StatusCount(BenchPart, frozen=True, kw_only=True):
    """Runs of one variant that ended in one way that is no success.

    Attributes:
        status: how.
        num_runs: that ended so.
        num_repeated: of these, run again when the comparison was resumed.
    """

    status: Status
    num_runs: Positive
    num_repeated: Count


class SideEndings(BenchPart, frozen=True, kw_only=True):
    """How the runs of one variant ended: warm-ups, A/A and A/B alike, and a repeated run each time.

    Attributes:
        num_runs: that ended.
        unsuccessful: one entry for each status among them but success.
    """

    num_runs: Count
    unsuccessful: tuple[StatusCount, ...]


class Endings(BenchPart, frozen=True, kw_only=True):
    """Both variants; a run that timed out and was repeated is in no other figure."""

    a: SideEndings
    b: SideEndings


class AbResult(BenchPart, frozen=True, kw_only=True):
    """A whole comparison.

    Attributes:
        schema_version: of the file.
        status: `done`, or how far it came.
        error: what ended it; null if it is done.
        evidence: what its figures are.
        run_id: of the run that it was made from.
        fingerprint: of its manifest.
        manifest: what was stated before the run.
        verdict: of B against A; null before the end.
        word: the published word for it.
        reasons: a sentence each.
        flags: cautions that stand beside every figure, a sentence each.
        confidence: of each interval behind the verdict.
        num_pairs, num_aa_pairs: that were measured.
        stopped_early: an interim look decided.
        order: sides of the pairs in the order of running.
        metrics: in the order of the manifest.
        outputs: null if no side answers a prompt.
        endings: how the runs of each variant ended, repeated ones too.
        environment: machine, build and revision.
        run: how it came about.
    """

    schema_version: Literal["arriero-ab-v1"] = SCHEMA
    status: Literal["done", "failed", "interrupted"]
    error: str | None
    evidence: Evidence
    run_id: Name
    fingerprint: Sha256
    manifest: AbManifest
    verdict: Verdict | None
    word: Word | None
    reasons: tuple[str, ...]
    flags: tuple[str, ...]
    confidence: float
    num_pairs: Count
    num_aa_pairs: Count
    stopped_early: bool
    order: str
    metrics: tuple[MetricResult, ...]
    outputs: OutputFacts | None
    endings: Endings
    environment: LabEnvironment
    run: RunFacts

    @property
    def deciding(self) -> tuple[MetricResult, ...]:
        """The metrics that the verdict rests on."""
        return tuple(each for each in self.metrics if each.metric.decides)


def _check(result: AbResult, file: str) -> None:
    if result.evidence is not Evidence.END_TO_END:
        raise broken(file, "evidence", f"{result.evidence} is not what whole programs give; run again")
    if (result.error is None) != (result.status == "done"):
        raise broken(file, "error", f"{result.error!a} does not fit the status {result.status}; run again")
    if (result.verdict is None) != (result.status != "done"):
        raise broken(file, "verdict", f"does not fit the status {result.status}; run again")
    if result.word != (None if result.verdict is None else WORDS[result.verdict]):
        raise broken(file, "word", f"{result.word} is not the word for {result.verdict}; run again")
    if tuple(each.metric for each in result.metrics) != result.manifest.metrics:
        raise broken(file, "metrics", "are not those of the manifest; run again")
    _check_pairs(result, file)
    for side, endings in (("a", result.endings.a), ("b", result.endings.b)):
        _check_endings(endings, file, f"endings.{side}")


def _check_pairs(result: AbResult, file: str) -> None:
    for index, each in enumerate(result.metrics):
        for name, found, expected in (("ab", each.ab, result.num_pairs), ("aa", each.aa, result.num_aa_pairs)):
            if found is not None and found.summary.num_pairs != expected:
                raise broken(file, f"metrics[{index}].{name}", f"does not rest on {expected} pairs; run again")


def _check_endings(endings: SideEndings, file: str, place: str) -> None:
    statuses = [each.status for each in endings.unsuccessful]
    if Status.SUCCESS in statuses or len(set(statuses)) < len(statuses):
        raise broken(file, f"{place}.unsuccessful", "counts a success, or one status twice; run again")
    if sum(each.num_runs for each in endings.unsuccessful) > endings.num_runs:
        raise broken(file, f"{place}.num_runs", "are fewer than those without success; run again")
    if any(each.num_repeated > each.num_runs for each in endings.unsuccessful):
        raise broken(file, f"{place}.unsuccessful", "more were repeated than there were; run again")


_FILE: Final = ResultFile(kind=AbResult, schema=SCHEMA, check=_check)
encode_ab: Final = _FILE.encode
decode_ab: Final = _FILE.decode
write_ab: Final = _FILE.write
read_ab: Final = _FILE.read
