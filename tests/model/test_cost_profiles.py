"""A kept cost profile and a loaded model: what it settles, without anything being measured."""

from pathlib import Path

import pytest

from arriero.backend.llama_model import LlamaModel
from arriero.cli.cost_profiles import kept_path
from arriero.cli.loading_llama import exact_shapes, fingerprint_of_model, settle_context
from arriero.core.config import FlashAttention, ServeConfig
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Threads
from arriero.record.cost_profile import encode_cost_profile
from tests.unit.cli.test_cost_profiles import profile

pytestmark = pytest.mark.model

CONFIG = ServeConfig(threads=Threads(2, 2))


def test_where_attention_is_open_the_profile_settles_it_and_nothing_is_tried(
    model: LlamaModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARRIERO_PROFILES", str(tmp_path))
    fingerprint = fingerprint_of_model(model, CONFIG, FlashAttention.OFF)
    path = kept_path(tmp_path, "smollm2-135m", fingerprint)
    path.write_bytes(encode_cost_profile(profile(fingerprint)))
    settled = settle_context(model, CONFIG)
    assert settled.found is not None
    assert settled.found.path == path
    assert settled.choice.fused_s is None
    assert settled.choice.options.flash_attention is FlashAttention.OFF
    assert settled.choice.options.micro_batch == 128
    assert "Q4_1" in fingerprint.model["weights"]
    exact = ServeConfig(threads=Threads(2, 2), exact=True, adapt_threads=True, flash_attn=FlashAttention.OFF)
    assert exact_shapes(exact, settled.found).threads == (1, 2)
    assert exact_shapes(CONFIG, settled.found).threads == ()


def test_a_target_without_a_profile_is_refused_before_a_context_is_made(model: LlamaModel) -> None:
    with pytest.raises(ConfigError, match=r"--itl-target 100: no cost profile .*; make one with: arriero calibrate"):
        settle_context(model, ServeConfig(itl_target=100))
