"""QualityPlan: what is to be measured, what it means in tokens and windows, and what has to fit before it begins."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.backend.context import ContextOptions, available_cpus
from arriero.core.choices import FlashAttention, KvType
from arriero.core.errors import ConfigError, DataError
from arriero.lab.machine.model_file import model_facts
from arriero.lab.quality.answers import Asked, ask
from arriero.lab.quality.subject import Opened, load, start_token_of, vocabulary_digest
from arriero.lab.quality.texts import Passage, Prompts
from arriero.lab.quality.windows import WINDOW, Window, cut, windowing_of
from arriero.metrics.window_bootstrap import CONFIDENCE, RESAMPLES
from arriero.record.cpu_lab.environment import LabEnvironment
from arriero.record.cpu_lab.quality import QualityResult, QualityStatus
from arriero.record.cpu_lab.quality_settings import QualitySettings, TextFacts
from arriero.tokens.vocabulary import Vocabulary

ANSWER_TOKENS: Final = 128
SEED: Final = 42
_MICRO_BATCH: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPlan:
    """What is to be measured.

    Attributes:
        reference: the file that all others are compared with.
        candidates: files, at least one; the reference may be among them.
        passage: that is predicted.
        prompts: that are answered.
        window, stride: see `windowing_of`.
        most_windows: cut off after so many; None takes all.
        answer_tokens: of an answer; 0 leaves the answers out.
        threads: None takes every CPU that this process may use.
        kv_type: of the candidates' memory; the reference keeps f16.
        note: what the user says of the reference.
    """

    reference: Path
    candidates: tuple[Path, ...]
    passage: Passage
    prompts: Prompts
    window: int = WINDOW
    stride: int | None = None
    most_windows: int | None = None
    answer_tokens: int = ANSWER_TOKENS
    threads: int | None = None
    flash_attention: FlashAttention = FlashAttention.AUTO
    kv_type: KvType = KvType.F16
    note: str | None = None


class Prepared(NamedTuple):
    """What is the same for all files."""

    settings: QualitySettings
    windows: Sequence[Window]
    asked: Asked
    vocabulary: Vocabulary


def files_left(plan: QualityPlan, kept: QualityResult | None) -> tuple[Path, ...]:
    """The candidates that are still to be measured; what cannot be read is told before anything is computed.

    Raises:
        ConfigError: a file is no model, or is given twice.
    """
    done = {candidate.model.sha256 for candidate in (() if kept is None else kept.candidates)}
    seen: dict[str, Path] = {}
    for path in plan.candidates:
        sha256 = model_facts(path).sha256
        if sha256 in seen:
            raise ConfigError(f"{path}: is the same as {seen[sha256]}, byte for byte; give it once")
        seen[sha256] = path
    return tuple(path for sha256, path in seen.items() if sha256 not in done)


def require_one_vocabulary(paths: Sequence[Path], reference: Opened) -> None:
    """Refuse files whose tokens mean something else.

    Raises:
        ConfigError: names the file.
    """
    expected = vocabulary_digest(reference.vocabulary)
    for path in paths:
        with load(path) as opened:
            if vocabulary_digest(opened.vocabulary) == expected:
                continue
            sizes = f"{opened.vocabulary.size} tokens, {reference.vocabulary.size} in the reference"
        raise ConfigError(
            f"{path}: its vocabulary differs from that of --reference ({sizes}), so their predictions cannot be "
            "compared; give formats of one model"
        )


def prepare(plan: QualityPlan, opened: Opened) -> Prepared:
    """Cut the text and put the prompts into the reference's template.

    Raises:
        ConfigError: see `windowing_of` and `ask`.
    """
    vocabulary = opened.vocabulary
    passage = plan.passage
    tokens = vocabulary.encode(passage.text, add_special=False, parse_special=False)
    start_token = start_token_of(vocabulary)
    windowing = windowing_of(
        len(tokens), plan.window, plan.stride, start_token=start_token is not None, most=plan.most_windows
    )
    asked = ask(plan.prompts, vocabulary, plan.answer_tokens)
    settings = QualitySettings(
        text=TextFacts(file=passage.file, bytes=passage.num_bytes, sha256=passage.sha256, num_tokens=len(tokens)),
        windowing=windowing,
        prompts=asked.facts,
        threads=plan.threads or available_cpus(),
        flash_attention=plan.flash_attention,
        kv_type=plan.kv_type,
        confidence=CONFIDENCE,
        resamples=RESAMPLES,
        seed=SEED,
    )
    return Prepared(settings, cut(tokens, windowing, start_token), asked, vocabulary)


def context_options(prepared: Prepared, kv_type: KvType) -> ContextOptions:
    """One sequence, that holds a window or a prompt with its answer, and a row of logits for each scored token."""
    settings, asked = prepared.settings, prepared.asked
    window = settings.windowing.window
    return ContextOptions(
        ctx_size=max(window, asked.longest + asked.max_tokens),
        num_sequences=1,
        num_rows=max(window, asked.longest),
        micro_batch=_MICRO_BATCH,
        num_threads=settings.threads,
        flash_attention=settings.flash_attention,
        kv_type=kv_type,
        num_outputs=settings.windowing.num_scored,
    )


def require_fitting(
    kept: QualityResult, prepared: Prepared, plan: QualityPlan, environment: LabEnvironment
) -> QualityResult:
    """Refuse to go on with a result of something else: reference, settings, or llama.cpp and CPU, which decide bits.

    Raises:
        DataError: names what differs.
    """
    if kept.reference.model.sha256 != model_facts(plan.reference).sha256:
        what = f"reference: {kept.reference.model.file} was another file"
    elif (kept.environment.library, kept.environment.isa) != (environment.library, environment.isa):
        what = "environment: it was begun with another build of llama.cpp, or on another kind of CPU"
    elif kept.settings != prepared.settings:
        names = [name for name in kept.settings.__struct_fields__
                 if getattr(kept.settings, name) != getattr(prepared.settings, name)]  # fmt: skip
        what = f"settings: {', '.join(names)} differ"
    else:
        return msgspec.structs.replace(kept, status=QualityStatus.RUNNING)
    raise DataError(f"--resume: {what}; go on as that run began, or begin anew with --force")
