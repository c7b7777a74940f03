"""Whatever the pieces and the stops: the deltas joined are the whole text, cut where it says."""

from hypothesis import given
from hypothesis import strategies as st

from arriero.tokens.detokenizer import Detokenizer
from arriero.tokens.vocabulary import ByteVocabulary

FEW_LETTERS = st.text(alphabet="ab", min_size=1, max_size=5)
# Bytes that begin and continue characters of one to four bytes, and some that no character has.
FEW_BYTES = st.sampled_from([*b"ab", 0xC3, 0xA9, 0xE6, 0xBC, 0xA2, 0xF0, 0x9F, 0x98, 0x80, 0xED, 0xFF])
STOPS = st.lists(FEW_LETTERS, max_size=4)
PARTS = st.lists(st.integers(1, 7), max_size=40)


def answer(data: bytes, parts: list[int], stops: list[str]) -> tuple[str, Detokenizer]:
    """Feed bytes in groups of the given sizes, then the rest; joined deltas."""
    detokenizer = Detokenizer(ByteVocabulary(), stops)
    text, position = "", 0
    for size in [*parts, len(data)]:
        text += detokenizer.feed(data[position : position + size]).text
        position += size
    return text + detokenizer.finish().text, detokenizer


def first_stop(text: str, stops: list[str]) -> tuple[int, int] | None:
    """Start and end of the stop that counts, by looking everywhere."""
    found = [(i, i + len(stop)) for stop in stops for i in range(len(text)) if text.startswith(stop, i)]
    return min(found, default=None)


@given(st.binary(max_size=200) | st.lists(FEW_BYTES, max_size=80).map(bytes), PARTS)
def test_joined_deltas_are_the_text_of_all_bytes(data: bytes, parts: list[int]) -> None:
    text, detokenizer = answer(data, parts, [])
    assert text == data.decode(errors="replace")
    assert detokenizer.num_tokens == len(data)


@given(st.text(max_size=60), PARTS)
def test_valid_text_comes_back_without_a_replacement(text: str, parts: list[int]) -> None:
    assert answer(text.encode(), parts, [])[0] == text


@given(st.text(alphabet="abé漢😀", max_size=60).map(str.encode) | st.lists(FEW_BYTES).map(bytes), PARTS, STOPS)
def test_r12_the_answer_is_the_text_before_the_first_stop(data: bytes, parts: list[int], stops: list[str]) -> None:
    whole = data.decode(errors="replace")
    expected = first_stop(whole, stops)
    text, detokenizer = answer(data, parts, stops)
    if expected is None:
        assert text == whole
        assert detokenizer.stopped is None
        assert detokenizer.num_tokens == len(data)
        return
    start, end = expected
    assert text == whole[:start]
    assert detokenizer.stopped is not None
    assert detokenizer.stopped.stop == whole[start:end]
    # One byte a token: the stop is complete as soon as the text of so many bytes has it, and not before.
    num_tokens = detokenizer.num_tokens
    assert len(data[:num_tokens].decode(errors="ignore")) <= len(data[:num_tokens].decode(errors="replace"))
    assert whole[start:end] in data[:num_tokens].decode(errors="replace")
    assert first_stop(data[: num_tokens - 1].decode(errors="replace"), [whole[start:end]]) is None


@given(st.text(alphabet="abc", max_size=60), STOPS)
def test_r12_nothing_is_held_longer_than_it_could_become_a_stop(text: str, stops: list[str]) -> None:
    detokenizer = Detokenizer(ByteVocabulary(), stops)
    shown = ""
    for i, byte in enumerate(text.encode(), 1):
        shown += detokenizer.feed([byte]).text
        if detokenizer.stopped:
            return
        held = text[len(shown) : i]
        found = first_stop(text[:i], stops)
        beginnings = [n for n in range(len(held)) if any(stop.startswith(held[n:]) for stop in stops)]
        # What is held starts with the beginning of a stop, or with one that waits for an earlier start to fail.
        assert beginnings[:1] == [0] * bool(held)
        assert found is None or len(shown) < found[0]


def test_a_long_stop_of_one_letter_is_no_slower_than_others() -> None:
    # Counted in scan steps, not seconds: each character moves the border back at most as far as it came.
    detokenizer = Detokenizer(ByteVocabulary(), ["a" * 999 + "b"])
    shown = "".join(detokenizer.feed(b"a" * 100).text for _ in range(50))
    assert len(shown) == 5_000 - 999
    assert detokenizer.finish().text == "a" * 999
