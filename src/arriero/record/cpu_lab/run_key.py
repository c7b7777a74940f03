"""RunKey: every field that tells one measured setting from another.

Repetitions are pooled if and only if their whole key is equal, and every analysis makes its own keys from this one by
naming the fields that it varies. So a field that is forgotten cannot pool two models, two KV types or two builds.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from arriero.record.bench_parts import BenchPart, Evidence
from arriero.record.strict import Count, Name, Positive


class RunKey(BenchPart, frozen=True, kw_only=True):
    """One setting of a matrix.

    Attributes:
        evidence: what the figures are.
        executor: what measured: the binding in a process of its own, or llama-bench.
        machine: a word for the machine: CPU, cores and limits.
        library: a word for the build of llama.cpp: version and hashes.
        model: the logical name.
        model_sha256: of its file; null where it was not hashed.
        weights: the format that its author states.
        threads: of passes of one row.
        batch_threads: of all other passes.
        prompt_tokens: of the prefill.
        generated_tokens: of the decode.
        context_size: tokens in all; what prompt and answer leave of it is filled before (depth).
        batch_size: rows of a decode call.
        micro_batch: rows that are computed together.
        kv_key: type of the keys in KV memory.
        kv_value: type of the values.
        flash_attention: as it was asked for.
        mmap: whether the file was mapped.
    """

    evidence: Evidence
    executor: Name
    machine: str
    library: str
    model: Name
    model_sha256: str | None
    weights: str
    threads: Positive
    batch_threads: Positive
    prompt_tokens: Count
    generated_tokens: Count
    context_size: Positive
    batch_size: Positive
    micro_batch: Positive
    kv_key: Name
    kv_value: Name
    flash_attention: str
    mmap: bool

    @property
    def depth(self) -> int:
        """Tokens that stand in the context before the prompt."""
        return self.context_size - self.prompt_tokens - self.generated_tokens

    @property
    def kv(self) -> str:
        """Both KV types in one word."""
        return f"{self.kv_key}/{self.kv_value}"


FIELDS: Final = tuple(each.name for each in msgspec.structs.fields(RunKey))
MODEL_FIELDS: Final = frozenset({"model", "model_sha256", "weights"})
THREAD_FIELDS: Final = frozenset({"threads", "batch_threads"})
KV_FIELDS: Final = frozenset({"kv_key", "kv_value"})


def without(key: RunKey, varied: Iterable[str]) -> tuple[object, ...]:
    """What is left of a key when some fields may differ; equal for settings that differ in these alone."""
    dropped = frozenset(varied)
    return tuple(getattr(key, name) for name in FIELDS if name not in dropped)


def differing(keys: Iterable[RunKey]) -> tuple[str, ...]:
    """The fields in which some of these keys differ, in their order."""
    seen = list(keys)
    return tuple(name for name in FIELDS if len({getattr(key, name) for key in seen}) > 1)
