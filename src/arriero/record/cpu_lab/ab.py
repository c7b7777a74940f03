"""AbResult: the verdict of a paired comparison of two variants and everything that it rests on, `arriero-ab-v1`.

It is made from the manifest and the records of a run, and can be made again from them.
"""

from pathlib import Path
from typing import Final, Literal

from arriero.metrics.paired_percent import PairedPercent
from arriero.metrics.paired_verdict import NoiseFloor, PairedVerdict, Verdict
from arriero.metrics.published_verdict import WORDS, Word
from arriero.record import bench_result_text as layout
from arriero.record.bench_parts import BenchPart, Evidence, RunFacts
from arriero.record.bench_result import broken
from arriero.record.cpu_lab.ab_run import AbManifest, MetricFacts
from arriero.record.cpu_lab.environment import LabEnvironment
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
        ab: published figures of the comparison; null without a pair.
        aa: the same of the A/A run.
        verdict: of arriero's rules on this metric; null under the published ones, which judge all metrics together,
            and for a metric that does not decide.
        floor: noise floor of the A/A run; null without one.
        power: what could be resolved; null without two A/A pairs.
        reasons: name of a field that is null -> why.
    """

    metric: MetricFacts
    ab: PairedPercent | None
    aa: PairedPercent | None
    verdict: PairedVerdict | None
    floor: NoiseFloor | None
    power: PowerFacts | None
    reasons: dict[str, str]


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
    environment: LabEnvironment
    run: RunFacts

    @property
    def deciding(self) -> tuple[MetricResult, ...]:
        """The metrics that the verdict rests on."""
        return tuple(each for each in self.metrics if each.metric.decides)


def encode_ab(result: AbResult, *, file: str = "ab.json") -> bytes:
    """The bytes of the file; the same result always gives the same.

    Raises:
        DataError: the result would not be accepted when read.
    """
    _check(result, file)
    return layout.encode(result, file=file)


def decode_ab(text: bytes, *, file: str) -> AbResult:
    """A result from the bytes of a file.

    Raises:
        DataError: cut off, of another schema, with a field too many or too few, or one that contradicts another.
    """
    result = layout.decode(text, AbResult, SCHEMA, file=file)
    _check(result, file)
    return result


def read_ab(path: Path) -> AbResult:
    """Read and check a file.

    Raises:
        DataError: as for `decode_ab`, or it cannot be read.
    """
    return decode_ab(layout.read(path), file=str(path))


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
    for index, each in enumerate(result.metrics):
        if each.ab is not None and each.ab.summary.num_pairs != result.num_pairs:
            raise broken(file, f"metrics[{index}].ab", f"does not rest on {result.num_pairs} pairs; run again")
