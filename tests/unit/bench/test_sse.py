from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.sse import Event, EventDecoder

PARTS = st.lists(
    st.sampled_from([
        b"data: one\n\n", b"data: two\r\n\r\n", b"data:three\n\n", b": comment\n\n", b"event: error\ndata: no\n\n",
        b"data: a\ndata: b\n\n", b"id: 1\nretry: 5\ndata: x\n\n", "data: Käse 🧀\n\n".encode(), b"data\n\n", b"\n\n",
        b"unknown: field\n\n", b"data: cr\r\r",
    ]),
    max_size=8,
)  # fmt: skip


def decode(*pieces: bytes) -> list[Event]:
    decoder = EventDecoder()
    found = [event for at, piece in enumerate(pieces) for event in decoder.feed(at, piece)]
    return found + decoder.finish(len(pieces) - 1)


def data_of(events: list[Event]) -> list[tuple[bytes, bytes]]:
    return [(event.data, event.name) for event in events]


@given(PARTS, st.lists(st.integers(min_value=0, max_value=200), max_size=12))
def test_it_does_not_matter_where_the_stream_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(parts)
    ends = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [whole[a:b] for a, b in pairwise(ends)] or [b""]
    assert data_of(decode(*pieces)) == data_of(decode(whole))


@given(PARTS)
def test_the_quick_way_reads_what_the_careful_one_reads(parts: list[bytes]) -> None:
    assert data_of(decode(*parts)) == data_of(decode(*[bytes([each]) for each in b"".join(parts)]))


def test_an_event_is_there_when_its_data_line_is() -> None:
    decoder = EventDecoder()
    assert decoder.feed(10, b"data: on") == []
    assert decoder.feed(20, b"e\n") == []
    assert decoder.feed(30, b"\ndata: two\n\n") == [Event(20, b"one", b""), Event(30, b"two", b"")]


def test_several_events_in_one_piece_have_its_moment() -> None:
    assert EventDecoder().feed(7, b"data: 1\n\ndata: 2\n\n") == [Event(7, b"1", b""), Event(7, b"2", b"")]


def test_a_return_at_the_end_of_a_piece_may_be_half_of_a_line_end() -> None:
    assert data_of(decode(b"data: 1\r", b"\n\r", b"\ndata: 2\r\n", b"\r\n")) == [(b"1", b""), (b"2", b"")]


def test_what_the_end_cuts_off_is_given_once() -> None:
    decoder = EventDecoder()
    assert decoder.feed(1, b"data: 1") == []
    assert decoder.finish(5) == [Event(5, b"1", b"")]
    assert EventDecoder().finish(1) == []


def test_a_name_belongs_to_its_event_only() -> None:
    assert data_of(decode(b"event: error\ndata: 1\n\ndata: 2\n\n")) == [(b"1", b"error"), (b"2", b"")]


def test_a_name_counts_although_its_data_comes_in_a_piece_of_its_own() -> None:
    assert data_of(decode(b"event: error\n", b"data: 1\n\n")) == [(b"1", b"error")]


def test_fields_without_data_are_no_event() -> None:
    assert decode(b"event: ping\n\nid: 3\n\n: hello\n\n") == []
