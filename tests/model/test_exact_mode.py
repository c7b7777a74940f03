"""Exact mode on the real model: the self-test of each weight format, and requests by chance against each alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from arriero.backend.canonical_rows import open_canonical
from arriero.backend.context import ContextOptions
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import WeightFormat, quantize
from arriero.backend.protocol import Backend
from arriero.core.config import FlashAttention
from arriero.core.errors import ConfigError
from arriero.engine.exact_check import ExactShapes, open_exact
from arriero.engine.placement import Dedicated
from arriero.testing.gates import SMALL, Backends, Gate, GateContext, run_gate
from arriero.testing.gates.mix import Mix, Mode
from arriero.testing.gates.mixture import MixtureSize
from arriero.testing.gates.storm import SIZE as STORM
from arriero.testing.gates.storm import Storm

pytestmark = [pytest.mark.model, pytest.mark.slow]

SEQUENCES = 9
OPTIONS = ContextOptions(
    ctx_size=SEQUENCES * 256,
    num_sequences=SEQUENCES,
    num_rows=128,
    micro_batch=128,
    num_threads=1,
    flash_attention=FlashAttention.OFF,
)
STORE = HostStoreOptions(max_bytes=1 << 28)


@pytest.mark.parametrize("weights", WeightFormat)
def test_every_format_is_exact_with_the_rows_that_it_needs(
    weights: WeightFormat, llama_process: None, short_path: Path, tmp_path: Path
) -> None:
    del llama_process
    model = LlamaModel(quantize(short_path, tmp_path / "weights.gguf", weights))
    found = open_exact(lambda rows: open_canonical(model, OPTIONS, rows, STORE), ExactShapes(caps=(37,)))
    assert found.proof.differing == ()
    assert found.proof.num_shapes >= 25
    assert found.backend.limits.num_sequences == SEQUENCES
    # one row alone takes another kernel than two or more, in any build that has both
    assert found.multiple > 1 or weights not in {WeightFormat.F16, WeightFormat.BF16}
    found.backend.close()
    model.close()


def test_flash_attention_is_found_out_and_refused_with_its_shape(short_model: LlamaModel) -> None:
    def make(multiple: int) -> Backend:
        fused = ContextOptions(
            ctx_size=2 * 256, num_sequences=2, num_rows=128, micro_batch=128, num_threads=1,
            flash_attention=FlashAttention.ON,
        )  # fmt: skip
        return open_canonical(short_model, fused, multiple)

    with pytest.raises(ConfigError, match="gives other bits than the same request alone"):
        open_exact(make, ExactShapes())


def test_requests_by_chance_have_the_bits_that_they_have_alone(gate_backends: Backends) -> None:
    size = MixtureSize(prompts=(8, 80), prefixes=(16, 50), answers=(3, 9))
    context = GateContext(backends=gate_backends, placement=Dedicated(), size=SMALL)
    report = run_gate(Gate("MIX", "by chance", Mix(Mode.EXACT, 24, 5, size).check), context)
    assert report.reason is None
    assert report.counts["rows_compared"] != 0


def test_a_storm_leaves_nothing_and_harms_nobody(gate_backends: Backends) -> None:
    size = replace(STORM, prompts=(4, 90), prefixes=(12, 50), answers=(2, 9), families=6)
    context = GateContext(backends=gate_backends, placement=Dedicated(), size=SMALL)
    report = run_gate(Gate("STORM", "a storm", Storm(40, 2, size).check), context)
    assert report.reason is None
