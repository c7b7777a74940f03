import pytest

from arriero.core.errors import InvalidRequest
from arriero.tokens.vocabulary import ByteVocabulary, Vocabulary, any_of, require_unicode


def test_bytes_are_their_own_ids_and_come_back() -> None:
    vocabulary: Vocabulary = ByteVocabulary()
    tokens = vocabulary.encode("é漢", add_special=False, parse_special=False)
    assert tokens == list("é漢".encode())
    assert b"".join(map(vocabulary.piece, tokens)).decode() == "é漢"


def test_control_texts_are_tokens_only_where_they_are_parsed() -> None:
    vocabulary = ByteVocabulary()
    start = vocabulary.special_texts["<|im_start|>"]
    assert vocabulary.encode("a<|im_start|>b", add_special=False, parse_special=True) == [97, start, 98]
    assert vocabulary.encode("<|im_start|>", add_special=False, parse_special=False) == list(b"<|im_start|>")


def test_the_start_token_comes_first_only_where_it_is_added() -> None:
    adding, plain = ByteVocabulary(adds_start_token=True), ByteVocabulary()
    assert adding.encode("", add_special=True, parse_special=False) == [adding.special_texts[adding.bos_text]]
    assert adding.encode("a", add_special=False, parse_special=False) == [97]
    assert plain.encode("a", add_special=True, parse_special=False) == [97]


def test_control_tokens_have_bytes_only_when_asked() -> None:
    vocabulary = ByteVocabulary()
    for text, token in vocabulary.special_texts.items():
        assert vocabulary.piece(token) == b""
        assert vocabulary.piece(token, special=True) == text.encode()
    assert vocabulary.piece(65, special=True) == b"A"


@pytest.mark.parametrize("token", [-1, 260])
def test_an_unknown_token_is_refused(token: int) -> None:
    with pytest.raises(InvalidRequest, match=r"0 \.\.\. 259") as caught:
        ByteVocabulary().piece(token)
    assert caught.value.field == "tokens"


def test_d13_both_end_tokens_are_named() -> None:
    vocabulary = ByteVocabulary()
    assert vocabulary.end_tokens == {vocabulary.special_texts[text] for text in ("<|end|>", "<|im_end|>")}
    assert ByteVocabulary(()).end_tokens == {257}


def test_d9_a_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidRequest, match=r"prompt .*U\+D800.* character 2") as caught:
        require_unicode("ab\ud800", "prompt")
    assert caught.value.field == "prompt"
    assert require_unicode("a\U0001f680", "prompt") == "a\U0001f680"


def test_the_longest_text_wins_and_no_text_matches_nothing() -> None:
    assert any_of(["<a>", "<a>b"]).findall("<a>b<a>") == ["<a>b", "<a>"]
    assert any_of([]).findall("anything") == []


def test_a_template_can_be_given_along() -> None:
    assert ByteVocabulary(chat_template="x").chat_template == "x"
    assert ByteVocabulary().chat_template is None
