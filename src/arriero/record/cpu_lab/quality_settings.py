"""QualitySettings: what two results of `arriero lab quality` have to share to be compared."""

from arriero.core.choices import FlashAttention, KvType
from arriero.record.bench_parts import BenchPart
from arriero.record.strict import Count, Name, Positive, Sha256


class TextFacts(BenchPart, frozen=True, kw_only=True):
    """The text that the files predict.

    Attributes:
        file: its base name.
        bytes: its size.
        sha256: of its content.
        num_tokens: under the vocabulary of the files.
    """

    file: Name
    bytes: Positive
    sha256: Sha256
    num_tokens: Positive


class Windowing(BenchPart, frozen=True, kw_only=True):
    """How the text is cut; each window is predicted by itself, from an empty memory.

    Attributes:
        window: tokens of a window.
        stride: from the beginning of a window to that of the next one.
        num_context: first tokens of a window, which are given and not scored.
        num_scored: its last tokens, each predicted from all before it in the window; none is scored twice.
        num_windows: whole windows that fit.
        num_left_out: tokens of the text that no window scores, the first `num_context` among them.
        start_token: whether the first token of each window is replaced by the vocabulary's start token.
    """

    window: Positive
    stride: Positive
    num_context: Positive
    num_scored: Positive
    num_windows: Positive
    num_left_out: Count
    start_token: bool


class PromptFacts(BenchPart, frozen=True, kw_only=True):
    """The prompts that are answered.

    Attributes:
        sha256: of their file.
        names: in their order.
        max_tokens: of an answer.
        template: where the chat template comes from: the file, or ChatML for files without one.
    """

    sha256: Sha256
    names: tuple[Name, ...]
    max_tokens: Positive
    template: Name


class QualitySettings(BenchPart, frozen=True, kw_only=True):
    """Everything but the model files.

    Attributes:
        text: that is predicted.
        windowing: how it is cut.
        prompts: that are answered; null if none were asked for.
        threads: that compute.
        flash_attention: as it was asked for; `auto` leaves it to llama.cpp.
        kv_type: of the candidates' keys and values; the reference keeps f16.
        confidence: of intervals.
        resamples: of the bootstrap over windows.
        seed: of the bootstrap.
    """

    text: TextFacts
    windowing: Windowing
    prompts: PromptFacts | None
    threads: Positive
    flash_attention: FlashAttention
    kv_type: KvType
    confidence: float
    resamples: Positive
    seed: Count
