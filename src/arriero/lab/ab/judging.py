"""Judging: a result from the manifest, the records and the summary of a run; nothing is measured here."""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from arriero.lab.ab.cautions import cautions
from arriero.lab.ab.endings import endings_of
from arriero.lab.ab.outputs import compare_outputs
from arriero.lab.ab.series import Measured, Pair, judge, pairs_of, values_of
from arriero.lab.ab.variants import GENERATION_RATE, PROMPT_RATE
from arriero.metrics.ab_verdict import AbJudged, MetricJudged
from arriero.metrics.bootstrap import CONFIDENCE
from arriero.metrics.paired_percent import PairedPercent, paired_percent
from arriero.metrics.paired_verdict import Verdict
from arriero.metrics.power import POWER, log_spread, pairs_needed, smallest_effect
from arriero.metrics.published_verdict import Judged, PublishedSummary, judge_published
from arriero.record.bench_parts import RunFacts
from arriero.record.bench_result_run import run_facts
from arriero.record.cpu_lab.ab import AbResult, MetricResult, OutputFacts, PowerFacts
from arriero.record.cpu_lab.ab_run import (
    DURATION,
    AbManifest,
    AbPhase,
    AbRecord,
    AbSummary,
    MetricFacts,
    RuleSet,
)
from arriero.record.cpu_lab.matrix import RunStatus
from arriero.record.cpu_lab.run_log import StoredRun

EFFECT: Final = 0.02
"""That the power estimate asks about where no smallest difference was stated."""

PUBLISHED_METRICS: Final = (PROMPT_RATE, GENERATION_RATE, DURATION)


class _Answer(NamedTuple):
    judged: Judged
    metrics: Mapping[str, MetricJudged]
    confidence: float


def manifest_of(stored: StoredRun[AbRecord]) -> AbManifest:
    """The manifest of a run on disk.

    Raises:
        msgspec.ValidationError: it is of another kind of run.
    """
    return msgspec.convert(stored.manifest.manifest, AbManifest)


def result_of(stored: StoredRun[AbRecord], summary: AbSummary) -> AbResult:
    """The result of a run that has ended; also of one that failed, without a verdict.

    Raises:
        ValueError: the published rules without their three metrics.
    """
    measured = _measured(stored)
    manifest, outputs, endings = measured.manifest, compare_outputs(measured.ab), endings_of(stored.records)
    is_done = summary.run_status is RunStatus.COMPLETED
    published = {each.name: _percent(measured.ab, each) for each in manifest.metrics}
    answer = _answer(measured, published, outputs) if is_done and measured.ab else None
    metrics = tuple(_metric(each, measured, published[each.name], answer) for each in manifest.metrics)
    return AbResult(
        status="done" if answer is not None else "interrupted" if summary.error is None else "failed",
        error=None if answer is not None else summary.error or "it was stopped before its end; --resume goes on",
        evidence=summary.evidence,
        run_id=stored.manifest.run_id,
        fingerprint=stored.manifest.fingerprint,
        manifest=manifest,
        verdict=None if answer is None else answer.judged.verdict,
        word=None if answer is None else answer.judged.word,
        reasons=() if answer is None else answer.judged.reasons,
        flags=tuple(cautions(measured, metrics, outputs, endings)),
        confidence=CONFIDENCE if answer is None else answer.confidence,
        num_pairs=len(measured.ab),
        num_aa_pairs=len(measured.aa),
        stopped_early=summary.stopped_early,
        order="".join(pair.letters for pair in measured.ab),
        metrics=metrics,
        outputs=outputs,
        endings=endings,
        environment=summary.environment,
        run=_run(summary),
    )


def _measured(stored: StoredRun[AbRecord]) -> Measured:
    manifest, latest = manifest_of(stored), stored.latest
    return Measured(
        manifest=manifest,
        aa=pairs_of(latest, AbPhase.AA, manifest.num_aa_pairs),
        ab=pairs_of(latest, AbPhase.AB, manifest.num_pairs),
        was_forced=bool(stored.manifest.forced_over),
    )


def _run(summary: AbSummary) -> RunFacts:
    return run_facts(
        summary.command,
        started_at=datetime.fromisoformat(summary.started_at),
        seconds=summary.seconds,
        was_interrupted=summary.run_status is RunStatus.INTERRUPTED,
    )


# ── the verdict ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _answer(measured: Measured, published: Mapping[str, PairedPercent | None], outputs: OutputFacts | None) -> _Answer:
    own: AbJudged | None = None
    if measured.manifest.rules.name is RuleSet.ARRIERO:
        own = judge(measured.manifest, measured.ab, measured.aa)
        judged, confidence, metrics = own.judged, own.confidence, own.metrics
    else:
        judged, confidence, metrics = _judge_published(published), CONFIDENCE, {}
    if measured.manifest.rules.same_text and (reason := _text_problem(outputs)) is not None:
        judged = Judged(Verdict.NO_VERDICT, (reason, *judged.reasons))
    return _Answer(judged, metrics, confidence)


def _judge_published(found: Mapping[str, PairedPercent | None]) -> Judged:
    missing = [name for name in PUBLISHED_METRICS if name not in found]
    if missing:
        raise ValueError(f"the published rules need {', '.join(PUBLISHED_METRICS)}; use arriero's")
    prompt, generation, duration = (found[name] for name in PUBLISHED_METRICS)
    if prompt is None or generation is None or duration is None:
        without = ", ".join(name for name in PUBLISHED_METRICS if found[name] is None)
        return Judged(Verdict.NO_VERDICT, (f"not every pair has a figure above 0 on both sides: {without}",))
    summary = PublishedSummary(prompt=prompt.summary, generation=generation.summary, duration=duration.summary)
    return judge_published(summary)


def _text_problem(outputs: OutputFacts | None) -> str | None:
    if outputs is None:
        return "no run answered the fixed prompt, so that equal texts cannot be shown"
    if outputs.equal:
        return None
    if outputs.differs_at is None:
        return "one side does not give the same greedy answer each time"
    return f"the greedy answers differ from token {outputs.differs_at} on"


# ── one metric ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _metric(metric: MetricFacts, measured: Measured, ab: PairedPercent | None, answer: _Answer | None) -> MetricResult:
    confidence = CONFIDENCE if answer is None else answer.confidence
    own = None if answer is None else answer.metrics.get(metric.name)
    power = _power(metric, measured, None if own is None or own.floor is None else own.floor.value, confidence)
    aa = _percent(measured.aa, metric)
    found = MetricResult(
        metric=metric,
        ab=ab,
        aa=aa,
        verdict=None if own is None else own.verdict,
        floor=None if own is None else own.floor,
        power=power,
        reasons={},
    )
    return msgspec.structs.replace(found, reasons=dict(_reasons(found, measured)))


def _reasons(found: MetricResult, measured: Measured) -> Iterator[tuple[str, str]]:
    for name, pairs, phase in (("ab", measured.ab, found.ab), ("aa", measured.aa, found.aa)):
        if phase is None:
            yield name, "not every pair has a figure above 0 on both sides" if pairs else "no pair was measured"
    is_published = measured.manifest.rules.name is RuleSet.PUBLISHED
    unjudged = "the run has not ended" if found.metric.decides else "it does not decide"
    if found.verdict is None:
        yield "verdict", "the published rules judge all metrics together" if is_published else unjudged
    if found.floor is None:
        missing = unjudged if found.verdict is None else "no A/A pair has a figure above 0 on both sides"
        yield "floor", "the published rules know none" if is_published else missing
    if found.power is None:
        yield "power", "needs two A/A pairs with a ratio" if found.metric.decides else "it does not decide"


def _percent(pairs: list[Pair], metric: MetricFacts) -> PairedPercent | None:
    """Figures over all pairs; None unless each pair has both, finite and above 0."""
    values = values_of(pairs, metric.name)
    if not values or len(values) != len(pairs) or not all(0 < each < math.inf for pair in values for each in pair):
        return None
    executions = [(pair.a.execution_index, pair.b.execution_index) for pair in pairs]
    return paired_percent(values, higher_is_better=metric.higher_is_better, executions=executions)


def _power(metric: MetricFacts, measured: Measured, floor: float | None, confidence: float) -> PowerFacts | None:
    values = values_of(measured.aa, metric.name)
    spread = log_spread(values)
    if spread is None or not metric.decides:
        return None
    effect = measured.manifest.rules.margin or EFFECT
    needed = pairs_needed(effect, spread, len(values), confidence=confidence)
    return PowerFacts(
        spread=spread,
        num_aa_pairs=len(values),
        power=POWER,
        confidence=confidence,
        smallest_effect=smallest_effect(len(measured.ab), spread, floor=floor, confidence=confidence),
        effect=effect,
        pairs=needed.pairs,
        pairs_least=needed.least,
        pairs_most=needed.most,
    )
