"""Tiles against a count that walks through every row."""

from hypothesis import given
from hypothesis import strategies as st

from arriero.costmodel.tiles import UNCUT, Tiles


def walked(length: int, groups: int, threads: int) -> int:
    """Tiles by the rule of ggml: a thread takes a chunk, and from it rows of one group, a tile at the most."""
    num_rows = length * groups
    num_chunks = -(-num_rows // -(-num_rows // (4 * threads)))
    if threads == 1 or num_chunks < threads:
        num_chunks = threads
    size = -(-num_rows // num_chunks)
    count = 0
    for chunk in range(num_chunks):
        row, end = chunk * size, min((chunk + 1) * size, num_rows)
        while row < end:
            row += min(64, end - row, length - row % length)
            count += 1
    return count


@given(st.integers(64, 600), st.integers(1, 32), st.integers(1, 8), st.integers(1, 16))
def test_as_many_as_a_walk_finds(length: int, heads: int, streams: int, threads: int) -> None:
    needed = heads * streams * -(-length // 64)
    waste = Tiles(heads, threads).waste(length, streams)
    assert waste == walked(length, heads * streams, threads) / needed
    assert waste >= 1


def test_nine_heads_on_two_threads() -> None:
    """SmolLM2-135M; measured on the machine, 64 rows took nearly twice as long for each row as 512."""
    tiles = Tiles(9, 2)
    assert [round(tiles.waste(length, 1), 2) for length in (64, 80, 128, 256, 512)] == [1.78, 1.11, 1.33, 1.11, 1.0]


@given(st.integers(64, 600), st.integers(1, 8))
def test_one_thread_cuts_nothing_and_nothing_is_cut_that_is_not_known(length: int, streams: int) -> None:
    assert Tiles(9, 1).waste(length, streams) == 1
    assert UNCUT.waste(length, streams) == 1
