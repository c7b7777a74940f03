"""`arriero model` and the lab's facts on a real file, shortened."""

from pathlib import Path

import pytest

from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import WeightFormat, quantize
from arriero.cli.main import main
from arriero.core.errors import ModelUnreadable
from arriero.lab.machine.model_file import model_facts
from arriero.testing.shortened_model import shorten

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def short(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shorten(model_path, tmp_path_factory.mktemp("short") / "short.Q4_1.gguf", 1)


def test_a_k_quant_is_told_by_its_real_types(short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made" / "k.gguf"
    assert main(["model", "quantize", str(short), "Q4_K_M", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "note: short.Q4_1.gguf is quantised already" in told.err
    assert "falling back" not in told.err  # hundreds of lines for a real model
    facts = model_facts(out)
    assert facts.declared_format == "Q4_K_M"
    assert {each.type for each in facts.fallbacks} >= {"Q5_0"}  # rows of 576
    assert all(fallback.row_length == 576 for fallback in facts.fallbacks)
    assert "so it stands in for Q4_K" in told.out
    assert [path.name for path in out.parent.iterdir()] == ["k.gguf"]
    assert main(["model", "quantize", str(short), "Q8_0", "--out", str(out)]) == 2
    assert main(["model", "quantize", str(short), "Q8_0", "--out", str(out), "--force"]) == 0
    assert model_facts(out).declared_format == "Q8_0"


def test_our_header_reader_and_llama_cpp_agree(short: Path) -> None:
    facts, model = model_facts(short), LlamaModel(short)
    try:
        can = model.capabilities
        assert facts.num_parameters == can.num_parameters
        assert facts.tensor_bytes == can.weight_bytes
        assert (facts.trained_context, facts.vocab_size) == (can.trained_context, can.vocab_size)
        assert facts.num_layers == can.num_layers
        assert can.weight_format == facts.declared_format
    finally:
        model.close()


def test_a_failed_conversion_leaves_nothing(short: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(short.read_bytes()[:100_000])
    with pytest.raises(ModelUnreadable):
        quantize(torn, tmp_path / "out.gguf", WeightFormat.F16)
    assert [path.name for path in tmp_path.iterdir()] == ["torn.gguf"]
