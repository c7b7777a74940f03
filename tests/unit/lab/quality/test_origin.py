"""What weights show of the format that they were in before."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arriero.lab.machine.model_file import model_facts
from arriero.lab.quality.origin import grid_of, origin_of
from arriero.record.cpu_lab.quality_figures import OriginKind
from tests.unit.backend.gguf_files import Tensor, gguf, small_model, uint32


def trained(seed: int, blocks: int = 200) -> NDArray[np.float32]:
    """Weights as training leaves them, stored in 16 bits."""
    values = np.random.default_rng(seed).normal(0, 0.03, 32 * blocks)
    return values.astype(np.float16).astype(np.float32)


def through(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """The same after a format with a scale, and for 4 bits a minimum, for each block of 32; then 16 bits again."""
    blocks = values.reshape(-1, 32)
    if bits == 4:
        low = blocks.min(axis=1, keepdims=True).astype(np.float16).astype(np.float32)
        scale = ((blocks.max(axis=1, keepdims=True) - low) / 15).astype(np.float16).astype(np.float32)
        packed = low + scale * np.clip(np.round((blocks - low) / scale), 0, 15)
    else:
        scale = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16).astype(np.float32)
        packed = scale * np.clip(np.round(blocks / scale), -127, 127)
    return np.asarray(packed.astype(np.float16).reshape(-1), np.float32)


@given(st.integers(0, 10_000))
def test_trained_weights_show_nothing(seed: int) -> None:
    assert grid_of(trained(seed)) is None


@given(st.integers(0, 10_000))
def test_four_and_eight_bits_are_found_again(seed: int) -> None:
    four, eight = (grid_of(through(trained(seed), bits)) for bits in (4, 8))
    assert four is not None
    assert four.startswith("4 bits")
    assert eight is not None
    assert eight.startswith("8 bits")


def test_zeros_and_short_tensors_show_nothing() -> None:
    assert grid_of(np.zeros(320, np.float32)) is None
    assert grid_of(np.ones(31, np.float32)) is None


def test_tensors_of_two_formats_are_told_apart(tmp_path: Path) -> None:
    """llama.cpp keeps embeddings at 8 bits where the rest has 4; the largest tensor alone would tell half of it."""
    four, eight = through(trained(1), 4), through(trained(2), 8)
    tensors = [Tensor(name=name, shape=(64, 100), type="F32") for name in ("token_embd.weight", "output.weight")]
    data = gguf([uint32("general.file_type", 0)], tensors)
    weights = eight.tobytes() + four.tobytes()
    path = tmp_path / "mixed.gguf"
    path.write_bytes(data[: len(data) - len(weights)] + weights)
    words = origin_of(path, model_facts(path)).words
    assert "requantised from 4 bits or fewer: at most 16 different values in every 32 weights; and 8 bits:" in words


def _file(path: Path, values: NDArray[np.float32], kind: str) -> Path:
    """A model with one matrix of these weights."""
    rows = len(values) // 64
    tensors = [Tensor(name="output.weight", shape=(64, rows), type=kind)]
    data = bytearray(gguf([uint32("general.file_type", 1)], tensors))
    packed = {
        "F16": values.astype("<f2").tobytes(),
        "BF16": (values.view(np.uint32) >> 16).astype("<u2").tobytes(),
        "F32": values.astype("<f4").tobytes(),
    }[kind]
    # the one tensor is the end of the file, but for its padding
    at = len(data) - -(-len(packed) // 32) * 32
    data[at : at + len(packed)] = packed
    path.write_bytes(bytes(data))
    return path


@pytest.mark.parametrize("kind", ["F16", "BF16", "F32"])
def test_a_wide_file_made_from_a_narrow_one_is_no_reference(tmp_path: Path, kind: str) -> None:
    honest = _file(tmp_path / "honest.gguf", trained(1), kind)
    remade = _file(tmp_path / "remade.gguf", through(trained(1), 4), kind)
    assert origin_of(honest, model_facts(honest)).kind is OriginKind.UNKNOWN
    found = origin_of(remade, model_facts(remade), "made from Q4_1")
    assert found.kind is OriginKind.REQUANTISED
    assert "no quality reference" in found.words
    assert "remade.gguf is F16, but requantised from 4 bits" in found.words
    assert found.note == "made from Q4_1"


def test_a_quantised_file_says_which_types(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(small_model())
    found = origin_of(path, model_facts(path))
    assert found.kind is OriginKind.QUANTISED
    assert "itself quantised (Q5_0, Q6_K, Q8_0)" in found.words
