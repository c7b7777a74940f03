"""Attention is tried on the loaded model where it is a question of speed alone."""

from dataclasses import replace

import pytest

from arriero.backend.attention_choice import UNFUSED_MICRO_BATCH, choose_attention, settled
from arriero.backend.attention_trials import BOUNDED, CHAT, Trial
from arriero.backend.context import ContextOptions
from arriero.backend.llama_model import LlamaModel
from arriero.core.config import FlashAttention, KvType

pytestmark = pytest.mark.model

OPEN = ContextOptions(num_sequences=3, ctx_size=768, num_rows=512, micro_batch=512)


@pytest.mark.parametrize("trial", [CHAT, BOUNDED])
@pytest.mark.parametrize("num_sequences", [1, 3])
def test_an_open_question_gets_the_faster_answer(short_model: LlamaModel, num_sequences: int, trial: Trial) -> None:
    options = replace(OPEN, num_sequences=num_sequences)
    found = choose_attention(short_model, options, trial)
    assert found.fused_s is not None
    assert found.unfused_s is not None
    faster = FlashAttention.ON if found.fused_s <= found.unfused_s else FlashAttention.OFF
    assert found.options == settled(options, faster)


def test_what_is_settled_is_not_tried(short_model: LlamaModel) -> None:
    for options in (
        replace(OPEN, flash_attention=FlashAttention.ON),
        replace(OPEN, flash_attention=FlashAttention.OFF),
        replace(OPEN, unified=True),
        replace(OPEN, kv_type=KvType.Q8_0),
    ):
        found = choose_attention(short_model, options)
        assert found.options == options
        assert found.fused_s is None
        assert found.unfused_s is None


def test_unfused_attention_has_small_micro_batches_and_fused_keeps_them() -> None:
    assert settled(OPEN, FlashAttention.OFF).micro_batch == UNFUSED_MICRO_BATCH
    assert settled(replace(OPEN, micro_batch=64), FlashAttention.OFF).micro_batch == 64
    assert settled(OPEN, FlashAttention.ON).micro_batch == OPEN.micro_batch
