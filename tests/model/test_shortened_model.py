"""A shortened model is one of llama.cpp's, with the vocabulary of the whole one."""

from pathlib import Path

import pytest

from arriero.backend.llama_model import LlamaModel
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.core.errors import ModelUnreadable
from arriero.testing.shortened_model import shorten

pytestmark = pytest.mark.model


def test_fewer_layers_and_the_same_vocabulary(model: LlamaModel, short_model: LlamaModel) -> None:
    assert (model.capabilities.num_layers, short_model.capabilities.num_layers) == (30, 3)
    text = "The mules knew the way."
    whole, short = (LlamaVocabulary(each) for each in (model, short_model))
    assert short.encode(text, add_special=True, parse_special=False) == whole.encode(
        text, add_special=True, parse_special=False
    )


def test_what_cannot_be_shortened_is_refused(model_path: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable, match="fewer than 31 layers"):
        shorten(model_path, tmp_path / "same.gguf", 30)
    (tmp_path / "text").write_text("no model")
    with pytest.raises(ModelUnreadable, match="no GGUF file"):
        shorten(tmp_path / "text", tmp_path / "out.gguf", 3)
    assert not (tmp_path / "same.gguf").exists()
