"""measure_quality: every file against the reference, one after the other, kept as soon as it is measured.

    check      all files are there, and share one vocabulary
    prepare    the text in tokens, in windows; the prompts in the reference's template
    reference  opened once, and stays; it is scored alone and answers the prompts
    candidate  opened, scored window by window beside the reference, asked, closed; the result is kept

Two model files are in memory at a time. No figure depends on how busy the machine is.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import msgspec

from arriero.core.choices import KvType
from arriero.lab.machine.environment import lab_environment
from arriero.lab.machine.model_file import model_facts
from arriero.lab.quality.answers import answers_of
from arriero.lab.quality.origin import origin_of
from arriero.lab.quality.plan import (
    Prepared,
    QualityPlan,
    context_options,
    files_left,
    prepare,
    require_fitting,
    require_one_vocabulary,
)
from arriero.lab.quality.scoring import score_alone, score_windows
from arriero.lab.quality.subject import Subject, load, open_subject
from arriero.record.bench_parts import RunFacts
from arriero.record.cpu_lab.quality import QualityResult, QualityStatus
from arriero.record.cpu_lab.quality_figures import Candidate, Reference, figures_of, matches_of, perplexity_of

Tell: TypeAlias = Callable[[float, str], None]
"""Takes the part of the work that is done, and what is being done."""


def measure_quality(
    plan: QualityPlan,
    *,
    facts: Callable[[], RunFacts],
    tell: Tell,
    keep: Callable[[QualityResult], None],
    kept: QualityResult | None = None,
) -> QualityResult:
    """Measure every candidate that `kept` does not hold; `process_start` has been called.

    Args:
        plan: what to measure.
        facts: how the run came about, as far as it has come.
        tell: progress.
        keep: takes the result after the reference and after each file, and once more if somebody interrupts.
        kept: an earlier, unfinished result, whose files are not measured again.

    Raises:
        ConfigError: a file cannot be read, memory does not suffice, the text is too short for the windows, or a file
            has another vocabulary than the reference.
        DataError: `kept` was measured under other settings, with another reference or by another llama.cpp.
        EngineFault: a model gives values that are no numbers.
    """
    left = files_left(plan, kept)
    with ExitStack() as stack:
        opened = stack.enter_context(load(plan.reference))
        require_one_vocabulary(left, opened)
        prepared = prepare(plan, opened)
        subject = stack.enter_context(open_subject(opened.model, context_options(prepared, KvType.F16)))
        counted = _Counted(prepared, len(left) + (kept is None), tell)
        if kept is None:
            result = _first(prepared, _reference(plan, prepared, subject, counted), facts())
            keep(result)
        else:
            result = require_fitting(kept, prepared, plan, lab_environment())
        try:
            for path in left:
                candidate = _candidate(path, prepared, result.reference, subject, counted)
                result = msgspec.structs.replace(result, candidates=(*result.candidates, candidate), run=facts())
                keep(result)
        except KeyboardInterrupt:
            keep(msgspec.structs.replace(result, status=QualityStatus.INTERRUPTED, run=facts()))
            raise
        result = msgspec.structs.replace(result, status=QualityStatus.COMPLETED, run=facts())
        keep(result)
    return result


class _Counted:
    """Progress over all passes; a pass goes once through the windows."""

    def __init__(self, prepared: Prepared, num_passes: int, tell: Tell) -> None:
        self._num_windows = len(prepared.windows)
        self._num_passes = max(1, num_passes)
        self._tell = tell
        self._done = 0

    def window(self, words: str) -> Callable[[int], None]:
        """A function that is told the number of windows of this pass that are done."""

        def tell(number: int) -> None:
            part = (self._done + number / self._num_windows) / self._num_passes
            self._tell(part, f"{words}, window {number + 1} of {self._num_windows}")

        return tell

    def answers(self, words: str) -> None:
        """The windows of this pass are done, and the prompts come."""
        self._done += 1
        self._tell(self._done / self._num_passes, f"{words}, answers")


def _reference(plan: QualityPlan, prepared: Prepared, subject: Subject, counted: _Counted) -> Reference:
    facts = model_facts(plan.reference)
    nll = score_alone(prepared.windows, subject, counted.window(facts.file))
    counted.answers(facts.file)
    return Reference(
        model=facts,
        origin=origin_of(plan.reference, facts, plan.note),
        perplexity=perplexity_of(nll, prepared.settings),
        nll=nll,
        answers=answers_of(subject, prepared.asked, prepared.vocabulary),
    )


def _candidate(path: Path, prepared: Prepared, reference: Reference, subject: Subject, counted: _Counted) -> Candidate:
    started = time.perf_counter()
    facts, settings = model_facts(path), prepared.settings
    with load(path) as opened, open_subject(opened.model, context_options(prepared, settings.kv_type)) as candidate:
        found = score_windows(prepared.windows, subject, candidate, counted.window(facts.file))
        counted.answers(facts.file)
        answers = answers_of(candidate, prepared.asked, prepared.vocabulary)
    figures = figures_of(reference.nll, found.candidate, settings)
    return Candidate(
        model=facts,
        perplexity=figures.perplexity,
        divergence=figures.divergence,
        ratio=figures.ratio,
        agreement=matches_of(reference.answers, answers),
        reference_repeats=found.reference_nll == reference.nll,
        seconds=time.perf_counter() - started,
        scores=found.candidate,
        answers=answers,
    )


def _first(prepared: Prepared, reference: Reference, facts: RunFacts) -> QualityResult:
    return QualityResult(
        status=QualityStatus.RUNNING,
        run=facts,
        environment=lab_environment(),
        settings=prepared.settings,
        reference=reference,
        candidates=(),
    )
