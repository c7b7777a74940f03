"""The real vocabulary, with a property: whatever text goes in comes out."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arriero.backend.llama_model import LlamaModel
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.core.errors import InvalidRequest
from arriero.tokens.vocabulary import Vocabulary

pytestmark = pytest.mark.model


def text_of(vocabulary: Vocabulary, tokens: list[int]) -> str:
    return b"".join(vocabulary.piece(token) for token in tokens).decode()


@pytest.fixture(scope="module")
def known_bytes(vocabulary: LlamaVocabulary) -> frozenset[int]:
    """Bytes that are a token; this model has none for some, as for a few control characters."""
    pieces = (vocabulary.piece(token) for token in range(vocabulary.size))
    return frozenset(piece[0] for piece in pieces if len(piece) == 1)


@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"], max_codepoint=0x2FFFF)))
def test_text_comes_back_from_its_tokens(vocabulary: LlamaVocabulary, known_bytes: frozenset[int], text: str) -> None:
    assume(known_bytes.issuperset(text.encode()))
    assert text_of(vocabulary, vocabulary.encode(text, add_special=False, parse_special=False)) == text


def test_long_text_and_zero_bytes_come_back(vocabulary: LlamaVocabulary) -> None:
    for text in ("word " * 5_000, "a\0b\0", "日本語 🦙" * 200):
        assert text_of(vocabulary, vocabulary.encode(text, add_special=True, parse_special=True)) == text


def test_names_of_control_tokens_are_plain_text_unless_parsed(vocabulary: LlamaVocabulary) -> None:
    assert vocabulary.special_texts["<|im_start|>"] == 1
    for text, token in vocabulary.special_texts.items():
        assert vocabulary.encode(text, add_special=False, parse_special=True) == [token]
        plain = vocabulary.encode(text, add_special=False, parse_special=False)
        assert token not in plain
        assert text_of(vocabulary, plain) == text


def test_control_tokens_have_bytes_only_if_asked(vocabulary: LlamaVocabulary) -> None:
    assert vocabulary.piece(2) == b""
    assert vocabulary.piece(2, special=True) == b"<|im_end|>"


def test_all_end_tokens_are_known(vocabulary: LlamaVocabulary, model: LlamaModel) -> None:
    texts = {vocabulary.piece(token, special=True) for token in vocabulary.end_tokens}
    assert texts >= {b"<|endoftext|>", b"<|im_end|>"}
    assert vocabulary.size == model.capabilities.vocab_size


def test_the_model_tells_its_template_and_start(vocabulary: LlamaVocabulary) -> None:
    assert vocabulary.chat_template is not None
    assert "<|im_start|>" in vocabulary.chat_template
    assert (vocabulary.bos_text, vocabulary.eos_text, vocabulary.adds_start_token) == (
        "<|im_start|>",
        "<|im_end|>",
        False,
    )


@pytest.mark.parametrize("token", [-1, 49152])
def test_a_token_outside_the_vocabulary_is_refused(vocabulary: LlamaVocabulary, token: int) -> None:
    with pytest.raises(InvalidRequest, match="ids run from 0 to 49151"):
        vocabulary.piece(token)


def test_it_is_a_vocabulary(vocabulary: LlamaVocabulary) -> None:
    as_protocol: Vocabulary = vocabulary  # checked by the type checkers
    assert as_protocol.size == 49152
