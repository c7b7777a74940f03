"""MatrixAnalysis: what the records of a matrix say, schema `arriero-lab-analysis-v1`.

Rates are tokens per second. What is undefined is null, and the reason stands beside it.
"""

from enum import StrEnum
from typing import Final, Literal

from arriero.metrics.spread import Spread
from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.cpu_lab.run_key import RunKey
from arriero.record.strict import Count, Name, Positive

SCHEMA: Final = "arriero-lab-analysis-v1"


class Phase(StrEnum):
    """Which part of a run a rate speaks of."""

    PREFILL = "prefill"
    DECODE = "decode"


class Group(BenchPart, frozen=True, kw_only=True):
    """The repetitions of one setting.

    Attributes:
        key: that they share.
        prefill: tokens/s; null without a prompt.
        decode: tokens/s; null without generated tokens.
        elapsed_s: of the whole invocation, model loading included; null where it was not measured.
        peak_rss_kib: of the process; null where it was not measured.
        kv_cache_bytes: as the library reports it, never inferred from memory; null where it reports none.
        model_bytes: of the file; null where it is not known.
    """

    key: RunKey
    prefill: Spread | None
    decode: Spread | None
    elapsed_s: Spread | None
    peak_rss_kib: Spread | None
    kv_cache_bytes: int | None
    model_bytes: int | None

    def rate(self, phase: Phase) -> Spread | None:
        """Of one phase."""
        return self.prefill if phase is Phase.PREFILL else self.decode


class ThreadPoint(BenchPart, frozen=True, kw_only=True):
    """One number of threads.

    Attributes:
        threads: that computed this phase.
        rate: tokens/s.
        speedup: mean / mean with one thread; null without such a row.
        efficiency: speedup / threads; same.
    """

    threads: Positive
    rate: Spread
    speedup: float | None
    efficiency: float | None


class ThreadCurve(BenchPart, frozen=True, kw_only=True):
    """One phase over numbers of threads, all else equal.

    Attributes:
        key: of the first point; the threads differ along the curve.
        points: by ascending threads; at least two.
        reason: why there is no speed-up; null where there is one.
    """

    phase: Phase
    key: RunKey
    points: tuple[ThreadPoint, ...]
    reason: str | None


class LengthPoint(BenchPart, frozen=True, kw_only=True):
    """One length: of the prompt for prefill, of the answer for decode."""

    tokens: Positive
    depth: Count
    rate: Spread


class LengthCurve(BenchPart, frozen=True, kw_only=True):
    """Prefill over prompt lengths, or decode over answer lengths, all else equal, at least two points.

    Attributes:
        holds: what is held along it: the whole context, so that the depth shrinks as the length grows, or the depth.
    """

    phase: Phase
    key: RunKey
    holds: Literal["context", "depth"]
    points: tuple[LengthPoint, ...]


class Quality(BenchPart, frozen=True, kw_only=True):
    """How far a file's answers are from those of a reference file.

    Attributes:
        reference: the file that it was compared with.
        kl_mean: mean KL divergence of the next token's distribution, nats; null where it was not measured.
        kl_high: the upper end of its interval; null without one.
        perplexity: on the text.
        perplexity_ratio: to that of the reference.
        perplexity_ratio_high: the upper end of its interval; null without one.
        agreement: share of greedy answers that agree.
        evidence: what the figures are.
    """

    reference: str
    kl_mean: float | None
    kl_high: float | None
    perplexity: float | None
    perplexity_ratio: float | None
    perplexity_ratio_high: float | None
    agreement: float | None
    evidence: Evidence


class FormatFile(BenchPart, frozen=True, kw_only=True):
    """One model file.

    Attributes:
        size_ratio: bytes / bytes of the reference; null without either.
        reduction: 1 - size_ratio.
        quality: null where no quality file speaks of it.
    """

    model: Name
    weights: str
    sha256: str | None
    num_bytes: int | None
    size_ratio: float | None
    reduction: float | None
    quality: Quality | None


class FormatCell(BenchPart, frozen=True, kw_only=True):
    """One file at one workload, beside the reference file at the very same workload.

    Attributes:
        prefill_ratio: mean / mean of the reference; null without it.
        decode_ratio: same.
        reason: why a ratio is null; null where both are there.
    """

    group: Group
    prefill_ratio: float | None
    decode_ratio: float | None
    reason: str | None


class ParetoPoint(BenchPart, frozen=True, kw_only=True):
    """One file at one workload as a bargain of speed, size and quality.

    Attributes:
        phase: whose speed.
        num_bytes: of the file.
        rate: mean tokens/s.
        kl_mean: null where quality was not measured; then speed and size decide alone.
        on_front: false only if another file at this workload is at least as good in everything beyond the spread, and
            better in something.
    """

    phase: Phase
    key: RunKey
    num_bytes: Count
    rate: float
    kl_mean: float | None
    on_front: bool


class Formats(BenchPart, frozen=True, kw_only=True):
    """Model files side by side.

    Attributes:
        reference: the weights format that ratios are of; null where no file has it.
        reason: why there is no reference; null where there is one.
    """

    reference: str | None
    reason: str | None
    files: tuple[FormatFile, ...]
    cells: tuple[FormatCell, ...]
    pareto: tuple[ParetoPoint, ...]


class KvCell(BenchPart, frozen=True, kw_only=True):
    """One KV type at one workload, beside f16/f16 at the very same workload; ratios are null without it."""

    group: Group
    prefill_ratio: float | None
    decode_ratio: float | None
    rss_ratio: float | None
    reason: str | None


class Growth(BenchPart, frozen=True, kw_only=True):
    """Memory between two neighbouring contexts of one slice, bytes a context token; null where it was not measured."""

    from_context: Positive
    to_context: Positive
    rss_bytes_per_token: float | None
    kv_bytes_per_token: float | None


class SliceKind(StrEnum):
    """What grows along a slice."""

    JOINT = "A"  # prompt and context together, the answer fixed
    CONTEXT = "B"  # the context, prompt and answer fixed
    ANSWER = "C"  # the answer, prompt and context fixed


class SliceLine(BenchPart, frozen=True, kw_only=True):
    """One KV type along a slice.

    Attributes:
        points: by ascending value of what grows.
        growth: between neighbours whose contexts differ.
    """

    kv_key: Name
    kv_value: Name
    points: tuple[KvCell, ...]
    growth: tuple[Growth, ...]


class Slice(BenchPart, frozen=True, kw_only=True):
    """Points that may be connected; no point stands in two slices."""

    kind: SliceKind
    lines: tuple[SliceLine, ...]


class CvExtreme(BenchPart, frozen=True, kw_only=True):
    """The steadiest or least steady group of one metric."""

    metric: Name
    key: RunKey
    cv: float
    n: Positive


class KvScaling(BenchPart, frozen=True, kw_only=True):
    """KV types and contexts.

    Attributes:
        cells: every setting, with its ratios.
        slices: of those that belong to one.
        unsliced: settings that stand alone.
    """

    cells: tuple[KvCell, ...]
    slices: tuple[Slice, ...]
    unsliced: Count


class Source(BenchPart, frozen=True, kw_only=True):
    """One run folder.

    Attributes:
        name: base name of the folder.
        run_id: of the run.
        sha256: of its log.
        num_records: the latest of each invocation.
        statuses: status -> how many invocations ended so.
        facts: what the manifest and the environment say, in words.
    """

    name: Name
    run_id: Name
    sha256: Name
    num_records: Count
    statuses: dict[str, int]
    facts: dict[str, str]


class MatrixAnalysis(BenchPart, frozen=True, kw_only=True):
    """Everything that the records of one or several runs say.

    Attributes:
        evidence: the kinds that occur; each group carries its own.
        excluded: why -> how many records are in no figure.
        warnings: a sentence each.
        groups: the baseline: every setting, in the order of running.
        cv: lowest and highest of each metric.
        formats: null with fewer than two files.
        kv: null with one KV type at one context.
        quality_source: where the quality figures come from, in words; null without any.
        arriero: version of arriero that analysed.
    """

    schema_version: Literal["arriero-lab-analysis-v1"] = SCHEMA
    arriero: Name
    evidence: tuple[Evidence, ...]
    sources: tuple[Source, ...]
    excluded: dict[str, int]
    warnings: tuple[str, ...]
    groups: tuple[Group, ...]
    threads: tuple[ThreadCurve, ...]
    lengths: tuple[LengthCurve, ...]
    formats: Formats | None
    kv: KvScaling | None
    cv: tuple[CvExtreme, ...]
    quality_source: dict[str, str] | None = None
