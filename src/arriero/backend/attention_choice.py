"""Which attention is faster here: fused or not, tried on the loaded model.

Neither wins everywhere. Fused attention computes fewer than 64 rows of a sequence one by one, and what that costs
depends on the processor: 8 decode rows beside 1,000 tokens each took 2.3 times as long as without it on one machine,
and a fifth less on another. From 64 rows on it is ahead. So both do the same work in turns (`attention_trials.py`), and
which work depends on what the server has to promise.
"""

from dataclasses import dataclass, replace
from typing import Final

from arriero.backend.attention_trials import CHAT, Trial
from arriero.backend.context import QUANTISED, ContextOptions
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.passing_thread import in_passing_thread
from arriero.core.config import FlashAttention

ROUNDS: Final = 2

UNFUSED_MICRO_BATCH: Final = 128
"""Without fused attention larger ones are slower: 512 took 15 to 18 % longer than 128 on both machines tried."""

LARGEST_WEIGHTS: Final = 2 << 30
"""Bytes; with more, trying would take longer than a start should, and attention is a small part of a step."""


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """What was found.

    Attributes:
        options: those to open a context with.
        fused_s, unfused_s: the time of the same work; None where nothing was tried.
    """

    options: ContextOptions
    fused_s: float | None = None
    unfused_s: float | None = None


def is_open(model: LlamaModel, options: ContextOptions) -> bool:
    """Whether attention is left open and a question of speed alone; else it is settled, or llama.cpp settles it."""
    return (
        options.flash_attention is FlashAttention.AUTO
        and not options.unified
        and not model.num_gpu_layers
        and options.kv_type not in QUANTISED
        and model.capabilities.weight_bytes <= LARGEST_WEIGHTS
    )


def settled(options: ContextOptions, attention: FlashAttention) -> ContextOptions:
    """The options of an open question with one of its answers, on or off."""
    if attention is FlashAttention.ON:
        return replace(options, flash_attention=FlashAttention.ON)
    small = min(options.micro_batch, UNFUSED_MICRO_BATCH)
    return replace(options, flash_attention=FlashAttention.OFF, micro_batch=small)


def choose_attention(model: LlamaModel, options: ContextOptions, trial: Trial = CHAT) -> AttentionChoice:
    """Settle what is open by trying both on some work; else leave the options as they are.

    Raises:
        ConfigError: the options cannot work together, or memory does not suffice.
    """
    if not is_open(model, options):
        return AttentionChoice(options)
    fused, unfused = settled(options, FlashAttention.ON), settled(options, FlashAttention.OFF)
    fused_s, unfused_s = in_passing_thread(lambda: _time_both(model, fused, unfused, trial))
    return AttentionChoice(fused if fused_s <= unfused_s else unfused, fused_s, unfused_s)


def _time_both(model: LlamaModel, fused: ContextOptions, unfused: ContextOptions, trial: Trial) -> tuple[float, float]:
    """The same work on both in turns, the best of a few rounds each."""
    count = trial.sequences(fused)
    num_cells = count * trial.cells(fused)
    backends: list[LlamaCppBackend] = []
    try:
        for options in (fused, unfused):
            rows = max(trial.num_rows, options.micro_batch)
            one = replace(options, num_sequences=count, ctx_size=num_cells, num_rows=rows)
            backends.append(LlamaCppBackend(model, one))
        rounds = [[trial.seconds(backend, fused) for backend in backends] for _ in range(ROUNDS)]
    finally:
        for backend in backends:
            backend.close()
    fused_s, unfused_s = (min(times) for times in zip(*rounds, strict=True))
    return fused_s, unfused_s
