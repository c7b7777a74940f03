"""Which attention is faster here: fused or not, tried on the loaded model.

Neither wins everywhere. Fused attention computes fewer than 64 rows of a sequence one by one, and what that costs
depends on the processor: 8 decode rows beside 1,000 tokens each took 2.3 times as long as without it on one machine,
and a fifth less on another. From 64 rows on it is ahead. So both are timed on a prompt, on the rest of a prompt whose
beginning was reused, and on decode steps of as many sequences as will run, up to eight, weighted as in a chat: for 256
tokens of a prompt 48 of such a rest and 64 of an answer.

Decode steps are those of real sequences. Eight rows of a single one looked like a cheap stand-in and are none: on one
machine they took 9.8 ms fused and 9.2 ms unfused, and a row for each of eight sequences 16 and 20 ms.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from arriero.backend.context import QUANTISED, ContextOptions
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.passing_thread import in_passing_thread
from arriero.core.config import FlashAttention
from arriero.core.events import CopySequence, TrimSequence
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk
from arriero.core.request import Request

PROMPT_ROWS: Final = 256
SUFFIX_ROWS: Final = 48
MOST_SEQUENCES: Final = 8
DECODE_STEPS: Final = 64  # for a prompt of each sequence
STEP_TRIES: Final = 3
ROUNDS: Final = 2

UNFUSED_MICRO_BATCH: Final = 128
"""Without fused attention larger ones are slower: 512 took 15 to 18 % longer than 128 on both machines tried."""

LARGEST_WEIGHTS: Final = 2 << 30
"""Bytes; with more, trying would take longer than a start should, and attention is a small part of a step."""

_TOKEN: Final[TokenId] = 3
_SEQUENCE: Final = SequenceId(0)


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


def choose_attention(model: LlamaModel, options: ContextOptions) -> AttentionChoice:
    """Settle what is open by trying both; else leave the options as they are.

    Raises:
        ConfigError: the options cannot work together, or memory does not suffice.
    """
    if not is_open(model, options):
        return AttentionChoice(options)
    fused, unfused = settled(options, FlashAttention.ON), settled(options, FlashAttention.OFF)
    fused_s, unfused_s = in_passing_thread(lambda: _time_both(model, fused, unfused))
    return AttentionChoice(fused if fused_s <= unfused_s else unfused, fused_s, unfused_s)


def _time_both(model: LlamaModel, fused: ContextOptions, unfused: ContextOptions) -> tuple[float, float]:
    """The same work on both in turns, the best of a few rounds each."""
    count = min(fused.num_sequences, MOST_SEQUENCES)
    num_cells = count * (PROMPT_ROWS + SUFFIX_ROWS)
    backends: list[LlamaCppBackend] = []
    try:
        for options in (fused, unfused):
            rows = max(PROMPT_ROWS, options.micro_batch)
            one = replace(options, num_sequences=count, ctx_size=num_cells, num_rows=rows)
            backends.append(LlamaCppBackend(model, one))
        rounds = [[_work(backend, count) for backend in backends] for _ in range(ROUNDS)]
    finally:
        for backend in backends:
            backend.close()
    fused_s, unfused_s = (min(times) for times in zip(*rounds, strict=True))
    return fused_s, unfused_s


def _work(backend: LlamaCppBackend, count: int) -> float:
    """Seconds for a prompt, its suffix and the steps of an answer in each sequence; the prompt is computed once."""
    for number in range(count):
        backend.apply(TrimSequence(SequenceId(number), 0))
    prompt = _timed(lambda: backend.decode([_chunk(0, PROMPT_ROWS)]))
    for number in range(1, count):
        backend.apply(CopySequence(_SEQUENCE, SequenceId(number), PROMPT_ROWS))
    step = min(_timed_step(backend, count) for _ in range(STEP_TRIES))
    suffix = _timed(lambda: backend.decode([_chunk(PROMPT_ROWS, SUFFIX_ROWS)]))
    return count * (prompt + suffix) + DECODE_STEPS * step


def _timed_step(backend: LlamaCppBackend, count: int) -> float:
    """Seconds of one decode row a sequence, behind the prompt, which is all that they hold afterwards."""
    request = _request(PROMPT_ROWS + 1)
    rows = [DecodeRow(request, SequenceId(number), PROMPT_ROWS, _TOKEN) for number in range(count)]
    took = _timed(lambda: backend.decode(rows))
    for number in range(count):
        backend.apply(TrimSequence(SequenceId(number), PROMPT_ROWS))
    return took


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _chunk(start: int, number: int) -> PrefillChunk:
    return PrefillChunk(_request(start + number), _SEQUENCE, start, (_TOKEN,) * number, wants_logits=False)


def _request(length: int) -> Request:
    return Request(request_id=RequestId(0), prompt=(_TOKEN,) * length, max_tokens=1, arrival_at=0)
