"""QualityResult: how far model files predict and speak as a named reference file does, schema `arriero-quality-v1`.

Logarithms are natural. Every token's score is kept, so every figure can be made again, and is when a file is read.
`docs/lab/quality.md` defines the figures.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Literal

from arriero.core.errors import DataError
from arriero.record.bench_parts import BenchPart, Evidence, RunFacts
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.quality_figures import (
    Candidate,
    Reference,
    figures_of,
    matches_of,
    perplexity_of,
)
from arriero.record.cpu_lab.quality_settings import QualitySettings
from arriero.record.cpu_lab.result_file import ResultFile

SCHEMA: Final = "arriero-quality-v1"
_NEAR: Final = 1e-9
"""Relative: another build of numpy may add in another order."""


class QualityStatus(StrEnum):
    """How far a run has come."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"


class QualityResult(BenchPart, frozen=True, kw_only=True):
    """A whole result; it is written anew after each file, so an interrupted run loses the file in flight only.

    Attributes:
        schema_version: of the file.
        evidence: always MEASURED: counts and probabilities, no times.
        status: whether all files that were asked for are in it.
        run: how it came about.
        environment: it was measured in.
        settings: that two results have to share to be compared.
        reference: the file that all others are compared with.
        candidates: in the order of the command; none before the first was measured.
    """

    schema_version: Literal["arriero-quality-v1"] = SCHEMA
    evidence: Evidence = Evidence.MEASURED
    status: QualityStatus
    run: RunFacts
    environment: LabEnvironment
    settings: QualitySettings
    reference: Reference
    candidates: tuple[Candidate, ...]


def _check(result: QualityResult, file: str) -> None:
    if result.evidence is not Evidence.MEASURED:
        raise _broken(file, "evidence", f"{result.evidence} is not what these figures are")
    settings, reference = result.settings, result.reference
    windowing = settings.windowing
    shape = (windowing.num_windows, windowing.num_scored)
    _check_scores(reference.nll, shape, "reference.nll", file)
    made = perplexity_of(reference.nll, settings)
    _compare(made, reference.perplexity, "reference.perplexity", file)
    for index, candidate in enumerate(result.candidates):
        place = f"candidates[{index}]"
        scores = candidate.scores
        for name, values in (("nll", scores.nll), ("divergence", scores.divergence), ("same_top", scores.same_top)):
            _check_scores(values, shape, f"{place}.scores.{name}", file)
        figures = figures_of(reference.nll, scores, settings)
        for name in ("perplexity", "divergence", "ratio"):
            _compare(getattr(figures, name), getattr(candidate, name), f"{place}.{name}", file)
        _check_answers(reference, candidate, place, file)


def _check_answers(reference: Reference, candidate: Candidate, place: str, file: str) -> None:
    names = [[answer.prompt for answer in side.answers] for side in (reference, candidate)]
    if names[0] != names[1]:
        raise _broken(file, f"{place}.answers", "are not to the prompts that the reference answers")
    if matches_of(reference.answers, candidate.answers) != candidate.agreement:
        raise _broken(file, f"{place}.agreement", "does not follow from the answers")


def _check_scores(rows: Sequence[Sequence[float]], shape: tuple[int, int], place: str, file: str) -> None:
    num_windows, num_scored = shape
    if len(rows) != num_windows or any(len(row) != num_scored for row in rows):
        raise _broken(file, place, f"has not {num_windows} windows of {num_scored} tokens each")


def _compare(made: object, kept: object, place: str, file: str) -> None:
    """Refuse a figure that differs from what its tokens give."""
    for name, value in _numbers(made, ""):
        found = dict(_numbers(kept, "")).get(name)
        if found is None or not math.isclose(value, found, rel_tol=_NEAR, abs_tol=_NEAR):
            raise _broken(file, f"{place}{name}", "does not follow from the scores of its tokens")


def _numbers(value: object, name: str) -> list[tuple[str, float]]:
    """Every number of a struct with its place."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [(name, float(value))]
    if isinstance(value, BenchPart):
        fields = value.__struct_fields__
        return [each for field in fields for each in _numbers(getattr(value, field), f"{name}.{field}")]
    return []


def _broken(file: str, field: str, what: str) -> DataError:
    return DataError(f"{field}: {what}; run again", file=file, field=field)


_FILE: Final = ResultFile(kind=QualityResult, schema=SCHEMA, check=_check)
encode_quality: Final = _FILE.encode
decode_quality: Final = _FILE.decode
write_quality: Final = _FILE.write
read_quality: Final = _FILE.read
