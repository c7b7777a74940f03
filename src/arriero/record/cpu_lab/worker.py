"""What the bench worker is asked and what it answers: one JSON object in, one JSON line out.

The worker does for one key what llama-bench does: a prompt at some depth, tokens one by one at the same depth, random
tokens, in a process of its own.
"""

from enum import StrEnum
from typing import Final, Literal

import msgspec

from arriero.core.choices import FlashAttention
from arriero.record.strict import Count, Name, Positive

WORKER_SCHEMA: Final = "arriero-lab-worker-v1"


class KvCacheType(StrEnum):
    """How one number of keys or values is stored, by llama.cpp's names; quantised values need flash attention."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"
    Q4_1 = "q4_1"
    IQ4_NL = "iq4_nl"
    Q5_0 = "q5_0"
    Q5_1 = "q5_1"


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to measure.

    Attributes:
        model: path of a GGUF file, or a reference.
        threads: for micro-batches of one token.
        batch_threads: for all others; null takes `threads`.
        prompt_tokens: of the timed prompt; 0 leaves it out.
        generated_tokens: of each answer, timed one by one; 0 leaves them out.
        sequences: answers that are generated abreast, one token of each in a decode call.
        depth: tokens in KV before the timed ones begin, not timed.
        batch: tokens handed over by one decode call.
        micro_batch: tokens computed together.
        kv_key: type of the keys.
        kv_value: type of the values.
        flash_attention: fused attention; `auto` lets llama.cpp decide.
        mmap: map the file instead of reading it.
        repetitions: timed runs in this process.
        warmups: untimed runs before them, as llama-bench does: the prompt at depth 0, and one token.
        align_work: work buffers begin at a page, as those of the engine do; llama-bench's lie where they come.
        greedy_tokens: also answer a fixed prompt greedily with so many tokens; 0 does not.
    """

    model: Name
    threads: Positive
    batch_threads: Positive | None = None
    prompt_tokens: Count = 512
    generated_tokens: Count = 128
    sequences: Positive = 1
    depth: Count = 0
    batch: Positive = 2048
    micro_batch: Positive = 512
    kv_key: KvCacheType = KvCacheType.F16
    kv_value: KvCacheType = KvCacheType.F16
    flash_attention: FlashAttention = FlashAttention.AUTO
    mmap: bool = True
    repetitions: Positive = 1
    warmups: Count = 1
    align_work: bool = False
    greedy_tokens: Count = 0


class WorkerModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model as llama.cpp describes it.

    Attributes:
        name: of the file, without its folder.
        file_bytes: of the file.
        description: architecture, size and format in llama.cpp's words.
        weight_format: the file's main format.
        num_parameters: weights in all.
        weight_bytes: of all tensors.
    """

    name: Name
    file_bytes: Positive
    description: str
    weight_format: str
    num_parameters: Positive
    weight_bytes: Positive


class WorkerResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came out; what was not asked for is null or empty.

    Attributes:
        schema: of this object.
        prompt_tokens_per_s: mean over the repetitions of tokens per second.
        generated_tokens_per_s: same, of all sequences together.
        prompt_ns: of each repetition, monotonic clock.
        generation_ns: same.
        kv_cache_bytes: of the larger of the two contexts, as llama.cpp prints it (to 0.01 MiB).
        peak_rss_kib: of the process, when the timed part was over.
        model: what was loaded.
        library: base name -> SHA-256 of the shared libraries in use.
        system_info: what they were compiled for.
        text: the greedy answer.
        text_sha256: of its UTF-8 bytes.
        text_tokens: token ids of the greedy answer.
        reasons: name of a field that is null though it was asked for -> why.
    """

    schema: Literal["arriero-lab-worker-v1"] = WORKER_SCHEMA
    prompt_tokens_per_s: float | None
    generated_tokens_per_s: float | None
    prompt_ns: tuple[Positive, ...]
    generation_ns: tuple[Positive, ...]
    kv_cache_bytes: Count | None
    peak_rss_kib: Count | None
    model: WorkerModel
    library: dict[str, str]
    system_info: str
    text: str | None
    text_sha256: str | None
    text_tokens: tuple[int, ...]
    reasons: dict[str, str]
