import hashlib
from pathlib import Path

import pytest

from arriero.backend.models import resolve_model
from arriero.core.errors import ModelUnreadable
from arriero.lab.machine.model_file import model_facts
from arriero.record.cpu_lab.model_facts import FallbackFacts
from tests.unit.backend.gguf_files import Tensor, gguf, small_model, string, uint32


def test_facts_are_those_of_the_header_and_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "small.Q4_K_M.gguf"
    path.write_bytes(small_model())
    facts = model_facts(path)
    assert (facts.file, facts.bytes) == (path.name, len(small_model()))
    assert facts.sha256 == hashlib.sha256(small_model()).hexdigest()
    assert (facts.architecture, facts.name, facts.declared_format) == ("llama", "Small", "Q4_K_M")
    assert (facts.trained_context, facts.vocab_size, facts.num_layers, facts.embedding_length) == (2048, 4, 2, 576)
    assert facts.num_parameters == 576 * 4 + 512 * 2 + 576 * 2 * 2 + 576
    assert [(each.type, each.num_tensors, each.bytes) for each in facts.tensor_types] == [
        ("Q8_0", 1, 2448), ("F32", 1, 2304), ("Q5_0", 2, 1584), ("Q6_K", 1, 840),
    ]  # fmt: skip
    assert facts.tensor_bytes == 2448 + 2304 + 1584 + 840
    assert facts.reasons == {}


def test_fallbacks_of_a_k_quant_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(small_model())
    assert model_facts(path).fallbacks == (
        FallbackFacts(type="Q5_0", instead_of=("Q4_K",), row_length=576, block_length=256, num_tensors=2),
        FallbackFacts(type="Q8_0", instead_of=("Q6_K",), row_length=576, block_length=256, num_tensors=1),
    )


def test_a_format_with_short_blocks_has_no_fallbacks(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([uint32("general.file_type", 7)], [Tensor(name="a", shape=(576, 2), type="Q8_0")]))
    assert model_facts(path).fallbacks == ()


def test_what_a_file_does_not_say_is_null_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([uint32("general.file_type", 77)], [Tensor(name="a", shape=(4,))]))
    facts = model_facts(path)
    assert facts.declared_format == "unknown (77)"
    absent = {"architecture", "name", "trained_context", "vocab_size", "num_layers", "embedding_length"}
    assert set(facts.reasons) == absent
    path.write_bytes(
        gguf([string("general.architecture", "x"), uint32("x.vocab_size", 9)], [Tensor(name="a", shape=(4,))])
    )
    assert model_facts(path).vocab_size == 9


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(small_model())
    first = model_facts(path)
    assert model_facts(path) is first
    path.write_bytes(small_model() + b"\0")
    assert model_facts(path).sha256 != first.sha256


def test_a_missing_or_damaged_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable, match=r"no such file or directory; give the path"):
        model_facts(tmp_path / "none.gguf")
    path = tmp_path / "m.gguf"
    path.write_bytes(small_model()[:500])
    with pytest.raises(ModelUnreadable, match="damaged GGUF file"):
        model_facts(path)


def test_the_embedded_model_is_what_its_package_says() -> None:
    facts = model_facts(resolve_model("smollm2-135m"))
    assert (facts.architecture, facts.declared_format, facts.bytes) == ("llama", "Q4_1", 98_362_432)
    assert (facts.trained_context, facts.vocab_size) == (8192, 49_152)
    assert {each.type for each in facts.tensor_types} >= {"Q4_1", "F32"}
    assert facts.fallbacks == ()
