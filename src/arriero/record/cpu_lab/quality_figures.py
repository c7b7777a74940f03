"""The figures of one model file against the reference, and how they follow from the scores of single tokens."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from arriero.metrics.text_agreement import agree
from arriero.metrics.window_bootstrap import (
    Bounds,
    Draws,
    draw_windows,
    exponential_bounds,
    mean_bounds,
    rank_bounds,
)
from arriero.record.bench_parts import BenchPart
from arriero.record.cpu_lab.model_facts import ModelFacts
from arriero.record.cpu_lab.quality_settings import QualitySettings
from arriero.record.strict import Count, Name, Positive

_SHARES: Final = (0.5, 0.9, 0.99)

Rows = tuple[tuple[float, ...], ...]
"""One row a window, one value a scored token."""


class Estimate(BenchPart, frozen=True, kw_only=True):
    """A figure with its bootstrap interval over windows."""

    value: float
    low: float
    high: float


class Perplexity(BenchPart, frozen=True, kw_only=True):
    """How surprised a file is by the text.

    Attributes:
        value: exp(mean_nll).
        mean_nll: mean negative log-likelihood of the scored tokens, nats.
        num_tokens: scored.
    """

    value: Estimate
    mean_nll: float
    num_tokens: Positive


class Divergence(BenchPart, frozen=True, kw_only=True):
    """KL(reference || candidate) of the next token's distribution, nats, over the scored tokens.

    Attributes:
        mean: over tokens.
        median: by nearest rank, as are the next two.
        p90: 90 % of tokens have no more.
        p99: 99 % of tokens have no more.
        max: of all tokens; a maximum has no interval.
        same_top: share of tokens at which both files put the same token first.
    """

    mean: Estimate
    median: Estimate
    p90: Estimate
    p99: Estimate
    max: float
    same_top: Estimate


class TokenScores(BenchPart, frozen=True, kw_only=True):
    """Every scored token of one file; one row a window.

    Attributes:
        nll: negative log-likelihood, nats.
        divergence: from the reference, nats.
        same_top: 1 where both files put the same token first, else 0.
    """

    nll: Rows
    divergence: Rows
    same_top: tuple[tuple[int, ...], ...]


class Finish(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"


class Answer(BenchPart, frozen=True, kw_only=True):
    """What a file says to one prompt at temperature 0.

    Attributes:
        prompt: its name.
        text: of the answer.
        tokens: of the answer, the end token left out.
        finish: an end token, or the bound on tokens.
    """

    prompt: Name
    text: str
    tokens: tuple[int, ...]
    finish: Finish


class AnswerMatch(BenchPart, frozen=True, kw_only=True):
    """An answer beside that of the reference.

    Attributes:
        prompt: its name.
        exact: the same text.
        normalised: the same after NFKC, case folding and white space.
        common_tokens: equal tokens at the beginning.
        num_tokens: of the reference's answer.
        length_difference: characters, of this answer - of the reference's.
    """

    prompt: Name
    exact: bool
    normalised: bool
    common_tokens: Count
    num_tokens: Count
    length_difference: int


class GreedyAgreement(BenchPart, frozen=True, kw_only=True):
    """All prompts; a description, not a measure of quality."""

    matches: tuple[AnswerMatch, ...]

    @property
    def share_exact(self) -> float:
        """Of prompts with the same text."""
        return sum(match.exact for match in self.matches) / len(self.matches)

    @property
    def share_normalised(self) -> float:
        """Of prompts with the same text after normalising."""
        return sum(match.normalised for match in self.matches) / len(self.matches)


class OriginKind(StrEnum):
    """What is known of where the reference's weights come from."""

    QUANTISED = "quantised"
    REQUANTISED = "requantised"
    UNKNOWN = "unknown"


class Origin(BenchPart, frozen=True, kw_only=True):
    """What a reader must know before taking the reference for the truth.

    Attributes:
        kind: what the file and its weights show.
        words: the same as a sentence.
        note: what whoever ran it said of the reference; null for nothing.
    """

    kind: OriginKind
    words: Name
    note: str | None


class Reference(BenchPart, frozen=True, kw_only=True):
    """The file that the others are compared with.

    Attributes:
        nll: of each scored token, nats.
        answers: to the prompts; empty if none were asked for.
    """

    model: ModelFacts
    origin: Origin
    perplexity: Perplexity
    nll: Rows
    answers: tuple[Answer, ...]


class Candidate(BenchPart, frozen=True, kw_only=True):
    """One file against the reference.

    Attributes:
        ratio: its perplexity / that of the reference, paired over windows.
        resolved: whether 1 lies outside the ratio's interval.
        agreement: of answers; null if none were asked for.
        reference_repeats: whether the reference, computed again beside this file, gave the same bits as the first time.
        seconds: that it took, the reference included; no figure, for planning only.
    """

    model: ModelFacts
    perplexity: Perplexity
    divergence: Divergence
    ratio: Estimate
    agreement: GreedyAgreement | None
    reference_repeats: bool
    seconds: float
    scores: TokenScores
    answers: tuple[Answer, ...]

    @property
    def resolved(self) -> bool:
        """Whether the perplexities differ by more than the windows can explain."""
        return not self.ratio.low <= 1.0 <= self.ratio.high


class Figures(NamedTuple):
    """What follows from the scores of one file."""

    perplexity: Perplexity
    divergence: Divergence
    ratio: Estimate


def figures_of(reference_nll: Rows, scores: TokenScores, settings: QualitySettings) -> Figures:
    """All figures of a candidate; the same draws of windows serve all of them."""
    draws, confidence = _draws(settings), settings.confidence
    nll = np.asarray(scores.nll, np.float64)
    differences = nll - np.asarray(reference_nll, np.float64)
    divergence = np.asarray(scores.divergence, np.float64)
    median, p90, p99 = rank_bounds(divergence, _SHARES, draws, confidence)
    return Figures(
        perplexity_of(scores.nll, settings),
        Divergence(
            mean=_estimate(mean_bounds(divergence, draws, confidence)),
            median=_estimate(median),
            p90=_estimate(p90),
            p99=_estimate(p99),
            max=float(divergence.max()),
            same_top=_estimate(mean_bounds(np.asarray(scores.same_top, np.float64), draws, confidence)),
        ),
        _estimate(exponential_bounds(differences, draws, confidence)),
    )


def perplexity_of(nll: Rows, settings: QualitySettings) -> Perplexity:
    """One file's perplexity."""
    values = np.asarray(nll, np.float64)
    found = exponential_bounds(values, _draws(settings), settings.confidence)
    return Perplexity(value=_estimate(found), mean_nll=float(values.mean(axis=1).mean()), num_tokens=values.size)


def matches_of(reference: Sequence[Answer], candidate: Sequence[Answer]) -> GreedyAgreement | None:
    """Both files' answers to the same prompts, in one order; None without any."""
    matches = tuple(_match(one, other) for one, other in zip(reference, candidate, strict=True))
    return GreedyAgreement(matches=matches) if matches else None


def _match(reference: Answer, candidate: Answer) -> AnswerMatch:
    found = agree(reference.text, candidate.text, reference.tokens, candidate.tokens)
    return AnswerMatch(
        prompt=reference.prompt,
        exact=found.exact,
        normalised=found.normalised,
        common_tokens=found.common_tokens,
        num_tokens=len(reference.tokens),
        length_difference=found.length_difference,
    )


def _draws(settings: QualitySettings) -> Draws:
    return draw_windows(settings.windowing.num_windows, seed=settings.seed, resamples=settings.resamples)


def _estimate(bounds: Bounds) -> Estimate:
    return Estimate(value=bounds.value, low=bounds.low, high=bounds.high)
