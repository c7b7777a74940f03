"""Results of `arriero lab quality` as small as they can be, with figures that follow from made-up scores."""

import numpy as np

from arriero.core.choices import FlashAttention, KvType
from arriero.record.cpu_lab.model_facts import ModelFacts, TensorTypeFacts
from arriero.record.cpu_lab.quality import QualityResult, QualityStatus
from arriero.record.cpu_lab.quality_figures import (
    Answer,
    Candidate,
    Finish,
    Origin,
    OriginKind,
    Reference,
    Rows,
    TokenScores,
    figures_of,
    matches_of,
    perplexity_of,
)
from arriero.record.cpu_lab.quality_settings import PromptFacts, QualitySettings, TextFacts, Windowing
from tests.unit.lab.machine.machines import ENVIRONMENT
from tests.unit.record.bench_files import RUN

WINDOWS, SCORED = 6, 8
SETTINGS = QualitySettings(
    text=TextFacts(file="passages.txt", bytes=400, sha256="1" * 64, num_tokens=60),
    windowing=Windowing(
        window=16, stride=8, num_context=8, num_scored=8, num_windows=WINDOWS, num_left_out=12, start_token=False
    ),
    prompts=PromptFacts(sha256="2" * 64, names=("one", "two"), max_tokens=4, template="of the reference's file"),
    threads=2,
    flash_attention=FlashAttention.AUTO,
    kv_type=KvType.F16,
    confidence=0.95,
    resamples=200,
    seed=42,
)


def rows(seed: int, scale: float = 1.0) -> Rows:
    """Scores above 0."""
    values = np.random.default_rng(seed).exponential(scale, (WINDOWS, SCORED))
    return tuple(map(tuple, values.tolist()))


def model(name: str, kind: str, letter: str) -> ModelFacts:
    """A model file."""
    return ModelFacts(
        file=name,
        bytes=2000,
        sha256=letter * 64,
        gguf_version=3,
        architecture="llama",
        name="Small",
        num_parameters=1000,
        declared_format=kind,
        tensor_types=(TensorTypeFacts(type=kind, num_tensors=2, num_weights=1000, bytes=1800),),
        fallbacks=(),
        trained_context=2048,
        vocab_size=50,
        num_layers=2,
        embedding_length=64,
        reasons={},
    )


ANSWERS = (
    Answer(prompt="one", text="Yes.", tokens=(1, 2), finish=Finish.STOP),
    Answer(prompt="two", text="No, never", tokens=(3, 4, 5, 6), finish=Finish.LENGTH),
)
OTHER_ANSWERS = (
    Answer(prompt="one", text="yes. ", tokens=(7, 2), finish=Finish.STOP),
    Answer(prompt="two", text="No, not", tokens=(3, 4, 8, 9), finish=Finish.LENGTH),
)
NLL = rows(1)
REFERENCE = Reference(
    model=model("small.F16.gguf", "F16", "a"),
    origin=Origin(kind=OriginKind.REQUANTISED, words="small.F16.gguf is no quality reference", note="from Q4_1"),
    perplexity=perplexity_of(NLL, SETTINGS),
    nll=NLL,
    answers=ANSWERS,
)


def candidate(name: str = "small.Q4_0.gguf", seed: int = 2, letter: str = "b") -> Candidate:
    """A file that is a little worse than the reference."""
    added = np.asarray(rows(seed, 0.05))
    scores = TokenScores(
        nll=tuple(map(tuple, (np.asarray(NLL) + added).tolist())),
        divergence=tuple(map(tuple, (added / 2).tolist())),
        same_top=tuple(tuple(int(value < 0.1) for value in row) for row in added.tolist()),
    )
    figures = figures_of(NLL, scores, SETTINGS)
    return Candidate(
        model=model(name, "Q4_0", letter),
        perplexity=figures.perplexity,
        divergence=figures.divergence,
        ratio=figures.ratio,
        agreement=matches_of(ANSWERS, OTHER_ANSWERS),
        reference_repeats=True,
        seconds=1.5,
        scores=scores,
        answers=OTHER_ANSWERS,
    )


RESULT = QualityResult(
    status=QualityStatus.COMPLETED,
    run=RUN,
    environment=ENVIRONMENT,
    settings=SETTINGS,
    reference=REFERENCE,
    candidates=(candidate(), candidate("small.Q8_0.gguf", 3, "c")),
)
