"""Quality files: written, read back, and refused where a figure does not follow from its tokens."""

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from arriero.core.errors import DataError
from arriero.record.cpu_lab.quality import QualityResult, decode_quality, encode_quality, read_quality, write_quality
from arriero.record.cpu_lab.quality_figures import TokenScores, figures_of
from tests.unit.record.cpu_lab.quality_files import NLL, RESULT, SETTINGS

replace = msgspec.structs.replace


def test_a_result_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "quality.json"
    write_quality(path, RESULT)
    assert read_quality(path) == RESULT
    assert encode_quality(read_quality(path)) == path.read_bytes()


def test_figures_follow_from_the_scores_of_the_tokens() -> None:
    found = RESULT.candidates[0]
    nll, divergence = (np.asarray(each) for each in (found.scores.nll, found.scores.divergence))
    assert math.isclose(found.perplexity.value.value, math.exp(nll.mean()), rel_tol=1e-12)
    assert math.isclose(found.ratio.value, math.exp((nll - np.asarray(NLL)).mean()), rel_tol=1e-12)
    assert math.isclose(found.divergence.mean.value, divergence.mean(), rel_tol=1e-12)
    assert found.divergence.max == divergence.max()
    assert found.divergence.median.value == sorted(divergence.reshape(-1))[23], "nearest rank 24 of 48"
    assert found.ratio.low <= found.ratio.value <= found.ratio.high
    assert found.resolved, "every token is worse, so the ratio lies above 1"


def test_the_reference_against_itself_diverges_by_nothing() -> None:
    zeros = tuple((0.0,) * len(row) for row in NLL)
    ones = tuple((1,) * len(row) for row in NLL)
    figures = figures_of(NLL, TokenScores(nll=NLL, divergence=zeros, same_top=ones), SETTINGS)
    assert (figures.ratio.low, figures.ratio.value, figures.ratio.high) == (1.0, 1.0, 1.0)
    for estimate in (figures.divergence.mean, figures.divergence.median, figures.divergence.p99):
        assert (estimate.low, estimate.value, estimate.high) == (0.0, 0.0, 0.0)
    same = figures.divergence.same_top
    assert (same.low, same.value, same.high) == (1.0, 1.0, 1.0)


def test_agreement_counts_answers() -> None:
    agreement = RESULT.candidates[0].agreement
    assert agreement is not None
    assert (agreement.share_exact, agreement.share_normalised) == (0.0, 0.5)
    assert [match.common_tokens for match in agreement.matches] == [0, 2]
    assert [match.length_difference for match in agreement.matches] == [1, -2]


def _edited(change: Any) -> bytes:  # noqa: ANN401 - a function of nested tables
    values = msgspec.json.decode(encode_quality(RESULT))
    change(values)
    return msgspec.json.encode(values)


def _set(*path: Any, value: object) -> Any:  # noqa: ANN401 - a function of nested tables
    def change(values: Any) -> None:  # noqa: ANN401 - same
        for step in path[:-1]:
            values = values[step]
        values[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("candidates", 0, "ratio", "low"), 0.5, r"candidates\[0\]\.ratio\.low: does not follow"),
        (("candidates", 1, "divergence", "p99", "value"), 9.0, r"candidates\[1\]\.divergence\.p99\.value: does not"),
        (("candidates", 0, "scores", "nll", 2, 3), 0.0, r"candidates\[0\]\.perplexity"),
        (("candidates", 0, "scores", "same_top", 0), [1], "has not 6 windows of 8 tokens each"),
        (("reference", "nll"), [], "reference.nll: has not 6 windows"),
        (("reference", "perplexity", "mean_nll"), 2.0, r"reference\.perplexity\.mean_nll: does not follow"),
        (("candidates", 0, "answers", 0, "text"), "Yes.", r"candidates\[0\]\.agreement: does not follow"),
        (("candidates", 0, "answers", 0, "prompt"), "three", "are not to the prompts that the reference answers"),
        (("evidence",), "SIMULATED", "evidence"),
        (("settings", "windowing", "num_windows"), 0, "num_windows"),
        (("note",), "hello", "note: unknown field"),
    ],
)
def test_what_contradicts_itself_is_one_line_with_the_field(path: tuple[Any, ...], value: object, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        decode_quality(_edited(_set(*path, value=value)), file="q.json")
    assert "\n" not in str(caught.value)


def test_another_kind_of_file_and_half_a_file_are_refused() -> None:
    with pytest.raises(DataError, match="is not arriero-quality-v1"):
        decode_quality(b'{"schema_version": "arriero-bench-v1"}', file="q.json")
    with pytest.raises(DataError, match="cut off"):
        decode_quality(encode_quality(RESULT)[:-40], file="q.json")


def test_a_result_without_answers_has_no_agreement() -> None:
    silent: QualityResult = replace(
        RESULT,
        settings=replace(SETTINGS, prompts=None),
        reference=replace(RESULT.reference, answers=()),
        candidates=(replace(RESULT.candidates[0], answers=(), agreement=None),),
    )
    assert decode_quality(encode_quality(silent), file="q.json") == silent
