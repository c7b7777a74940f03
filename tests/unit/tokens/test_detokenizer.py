"""Rows D1 to D7: what an answer shows, and when."""

from collections.abc import Sequence

import pytest

from arriero.core.errors import InvalidRequest
from arriero.tokens.detokenizer import MAX_STOP_LENGTH, Detokenizer, TextDelta, text_of
from arriero.tokens.vocabulary import ByteVocabulary


class PieceVocabulary(ByteVocabulary):
    """Token i is the i-th piece."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    def piece(self, token: int, *, special: bool = False) -> bytes:
        del special
        return self._pieces[token]


def deltas(pieces: Sequence[bytes], stops: Sequence[str] = ()) -> tuple[list[str], Detokenizer]:
    """One delta for each token until the stop, then that of the end."""
    detokenizer = Detokenizer(PieceVocabulary(pieces), stops)
    texts = []
    for token in range(len(pieces)):
        texts.append(detokenizer.feed([token]).text)
        if detokenizer.stopped:
            break
    texts.append(detokenizer.finish().text)
    return texts, detokenizer


def stop_of(detokenizer: Detokenizer) -> str | None:
    return detokenizer.stopped.stop if detokenizer.stopped else None


def test_d1_a_stop_string_of_several_tokens_does_not_leak() -> None:
    texts, detokenizer = deltas([b"ok ", b"E", b"ND", b"_O", b"F"], ["END_OF"])  # codespell:ignore
    assert texts == ["ok ", "", "", "", "", ""]
    assert stop_of(detokenizer) == "END_OF"
    assert detokenizer.num_tokens == 5


def test_d2_wanted_text_and_stop_string_share_a_token() -> None:
    texts, detokenizer = deltas([b"ab", b"c###"], ["###"])
    assert texts == ["ab", "c", ""]
    assert detokenizer.num_tokens == 2


@pytest.mark.parametrize("stops", [["Y", "X"], ["X", "Y"]])
def test_d5_the_earliest_stop_in_the_text_counts(stops: list[str]) -> None:
    for pieces in ([b"a", b"X", b"b", b"Y"], [b"aXbY"]):
        texts, detokenizer = deltas(pieces, stops)
        assert "".join(texts) == "a"
        assert stop_of(detokenizer) == "X"


@pytest.mark.parametrize("stops", [["ab", "abc"], ["abc", "ab"]])
@pytest.mark.parametrize("pieces", [[b"xx", b"ab", b"cd"], [b"xx", b"abc"], [b"xxabcd"]])
def test_d6_of_stops_with_one_start_the_one_that_ends_first_counts(stops: list[str], pieces: list[bytes]) -> None:
    texts, detokenizer = deltas(pieces, stops)
    assert "".join(texts) == "xx"
    assert stop_of(detokenizer) == "ab"


@pytest.mark.parametrize("stops", [["abcd", "bc"], ["bc", "abcd"]])
def test_d6_a_later_start_waits_for_an_earlier_one_to_fail(stops: list[str]) -> None:
    for pieces, text, stop, num_tokens in (
        ([b"xa", b"b", b"c", b"d", b"e"], "x", "abcd", 4),
        ([b"xa", b"b", b"c", b"x", b"e"], "xa", "bc", 3),
        ([b"xa", b"b", b"c"], "xa", "bc", 3),
    ):
        texts, detokenizer = deltas(pieces, stops)
        assert "".join(texts) == text
        assert stop_of(detokenizer) == stop
        assert detokenizer.num_tokens == num_tokens


def test_d7_a_character_of_several_tokens_is_shown_once_it_is_whole() -> None:
    text = "👩🏽‍🚀é漢"
    texts, detokenizer = deltas([bytes((byte,)) for byte in text.encode()])
    assert [shown for shown in texts if shown] == list(text)
    assert "\ufffd" not in "".join(texts)
    assert detokenizer.num_tokens == len(text.encode())


def test_text_that_cannot_become_a_stop_is_released_at_once() -> None:
    texts, _ = deltas([b"E", b"N", b"D", b"_X", b"E"], ["END_OF"])
    assert texts == ["", "", "", "END_X", "", "E"]


def test_held_text_shrinks_by_what_can_no_longer_begin_a_stop() -> None:
    texts, detokenizer = deltas([b"a"] * 5 + [b"b"], ["aaab"])
    assert texts == ["", "", "", "a", "a", "", ""]
    assert detokenizer.num_tokens == 6


def test_a_stop_inside_the_bytes_of_a_character_does_not_occur() -> None:
    # The last two bytes of this character are those of "\u0080" alone, had it been cut there.
    texts, detokenizer = deltas([b"\xf0\x9f", b"\x98\x80", b"!"], ["\u0080", "!"])
    assert "".join(texts) == "😀"
    assert stop_of(detokenizer) == "!"


def test_broken_bytes_show_as_one_rule_says() -> None:
    pieces = [b"a\xff", b"\xe6\xbc", b"b", b"\xf0\x9f"]
    texts, _ = deltas(pieces)
    assert texts == ["a\ufffd", "", "\ufffdb", "", "\ufffd"]
    assert "".join(texts) == b"".join(pieces).decode(errors="replace") == text_of(PieceVocabulary(pieces), range(4))


def test_tokens_after_the_stop_are_not_looked_at() -> None:
    detokenizer = Detokenizer(PieceVocabulary([b"a#", b"b"]), ["#"])
    delta = detokenizer.feed(iter([0, 1, 99]))
    assert delta.text == "a"
    assert delta.stopped is not None
    assert detokenizer.feed([1]) == TextDelta("", delta.stopped)
    assert detokenizer.finish() == detokenizer.finish() == TextDelta("", delta.stopped)
    assert detokenizer.num_tokens == 1


def test_the_end_is_told_once() -> None:
    detokenizer = Detokenizer(PieceVocabulary([b"EN\xf0"]), ["END"])
    assert detokenizer.feed([0]) == TextDelta("", None)
    assert detokenizer.finish() == TextDelta("EN\ufffd", None)
    assert detokenizer.finish() == TextDelta("", None)


@pytest.mark.parametrize("stop", ["", "a" * (MAX_STOP_LENGTH + 1), "\udfff"])
def test_an_unusable_stop_string_is_refused(stop: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Detokenizer(ByteVocabulary(), ["ok", stop])
    assert caught.value.field == "stop"
