from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.plan import StepShape
from arriero.costmodel.passes import AttentionPath, Pass, PassRules, Stretch, split, stand_in

SEPARATE = PassRules(micro_batch=512, unified=False, stream_cells=2048)
POOL = PassRules(micro_batch=512, unified=True, stream_cells=16_384)


def decode(sequence_id: int, start: int = 10) -> Stretch:
    return Stretch(sequence_id, start, 1, wants_logits=True)


def chunk(sequence_id: int, num_rows: int, start: int = 0) -> Stretch:
    return Stretch(sequence_id, start, num_rows, wants_logits=False)


def rows_of(passes: Sequence[Pass]) -> list[tuple[int, int]]:
    return [(each.rows, each.streams) for each in passes]


def test_consecutive_ids_are_one_pass_and_a_hole_begins_another() -> None:
    assert rows_of(split([decode(0), decode(1), decode(2)], SEPARATE)) == [(3, 3)]
    assert rows_of(split([decode(0), decode(1), decode(3)], SEPARATE)) == [(2, 2), (1, 1)]
    assert rows_of(split([decode(0), decode(2), decode(4)], SEPARATE)) == [(1, 1)] * 3


def test_the_first_row_of_a_chunk_goes_with_the_decode_rows_beside_it() -> None:
    assert rows_of(split([decode(0), decode(1), chunk(2, 40), decode(5)], SEPARATE)) == [(3, 3), (39, 1), (1, 1)]
    # the same rows in one pool are one pass
    assert rows_of(split([decode(0), decode(1), chunk(2, 40), decode(5)], POOL)) == [(43, 1)]


def test_two_chunks_share_passes_of_equal_length() -> None:
    assert rows_of(split([chunk(0, 30), chunk(1, 50)], SEPARATE)) == [(60, 2), (20, 1)]


def test_no_pass_is_larger_than_a_micro_batch() -> None:
    rules = replace(SEPARATE, micro_batch=64)
    assert rows_of(split([chunk(0, 150)], rules)) == [(64, 1), (64, 1), (22, 1)]
    assert rows_of(split([chunk(0, 100), chunk(1, 100)], rules)) == [(64, 2)] * 3 + [(8, 2)]
    assert rows_of(split([chunk(0, 100), chunk(1, 100)], replace(POOL, micro_batch=64))) == [(64, 1)] * 3 + [(8, 1)]


@pytest.mark.parametrize(("num_rows", "path"), [(1, "one"), (2, "few"), (63, "few"), (64, "many"), (512, "many")])
def test_the_path_of_attention_goes_by_the_rows_of_one_stream(num_rows: int, path: str) -> None:
    (alone,) = split([chunk(0, num_rows)], SEPARATE)
    assert alone.path == path
    (both,) = split([chunk(0, num_rows), chunk(1, num_rows)], replace(SEPARATE, micro_batch=2048))
    assert both.path == path


def test_in_one_pool_the_path_goes_by_all_rows() -> None:
    (both,) = split([chunk(0, 32), chunk(1, 32)], POOL)
    assert both.path is AttentionPath.MANY


def test_a_decode_row_looks_at_its_context_and_itself() -> None:
    (one,) = split([decode(0, 100), decode(1, 300)], SEPARATE)
    assert one.keys == one.cells == 101 + 301
    assert one.scanned == 2 * 512  # the longest of them decides how many cells all look at


def test_few_rows_look_at_what_lies_before_them() -> None:
    (one,) = split([chunk(0, 4, start=10)], SEPARATE)
    assert one.keys == 11 + 12 + 13 + 14
    assert one.cells == 14
    assert one.scanned == 4 * 256


def test_many_rows_are_computed_in_whole_tiles() -> None:
    (one,) = split([chunk(0, 65, start=10)], SEPARATE)
    assert one.keys == 64 * (10 + 64) + 64 * (10 + 65)
    assert one.scanned == 65 * 256
    (pooled,) = split([chunk(0, 65, start=10)], POOL)
    assert (pooled.keys, pooled.scanned) == (one.keys, one.scanned)


def test_a_tile_in_one_pool_needs_the_cells_of_everybody_in_it() -> None:
    (one,) = split([decode(0, 99), chunk(1, 63, start=37)], POOL)
    assert one.keys == 64 * (100 + 100)


def test_rows_in_one_pool_look_at_the_cells_of_others() -> None:
    (alone,) = split([decode(0, 10)], POOL)
    (crowded,) = split([decode(0, 10)], POOL, pool=3000)
    assert (alone.scanned, crowded.scanned) == (256, 3072)
    assert alone.keys == crowded.keys
    assert split([decode(0, 10)], SEPARATE, pool=3000) == split([decode(0, 10)], SEPARATE)


def test_no_more_cells_are_looked_at_than_there_are() -> None:
    (one,) = split([decode(0, 290)], replace(SEPARATE, stream_cells=300))
    assert one.scanned == 300


def test_a_steady_decode_step_finds_its_graph() -> None:
    assert [each.builds for each in split([decode(0), decode(1)], SEPARATE)] == [False]
    assert [each.builds for each in split([decode(0), decode(1)], SEPARATE, is_first=True)] == [True]
    assert [each.builds for each in split([decode(0), decode(2)], SEPARATE)] == [True, True]
    assert [each.builds for each in split([chunk(0, 8)], SEPARATE)] == [True]


def test_a_chunk_gives_logits_in_its_last_pass_only() -> None:
    rules = replace(SEPARATE, micro_batch=64)
    whole = Stretch(0, 0, 100, wants_logits=True)
    assert [each.logit_rows for each in split([whole], rules)] == [0, 1]
    assert [each.logit_rows for each in split([whole], replace(POOL, micro_batch=64))] == [0, 1]


def test_rows_without_tokens_are_no_rows() -> None:
    assert split([], SEPARATE) == []
    assert split([chunk(0, 0)], SEPARATE) == []
    assert rows_of(split([decode(0), chunk(1, 0), decode(2)], SEPARATE)) == [(1, 1), (1, 1)]


def test_a_shape_is_stood_in_for_by_rows_with_its_counts() -> None:
    rows = stand_in(StepShape(decode_rows=2, prefill_rows=7, prefill_chunks=2, context_tokens=41, num_running=6))
    assert rows == [decode(0, 10), decode(1, 10), chunk(2, 4, 10), chunk(3, 3, 10)]
    assert stand_in(StepShape(0, 0, 0, 0, 3)) == []
    assert stand_in(StepShape(0, 0, 1, 0, 1)) == [chunk(0, 0)]


stretches = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 400), st.one_of(st.just(1), st.integers(1, 90)), st.booleans()),
    min_size=1,
    max_size=6,
)


def placed(parts: Sequence[tuple[int, int, int, bool]]) -> Iterator[Stretch]:
    """Ids that ascend with gaps of 0, 1 or 2."""
    sequence_id = -1
    for step, start, num_rows, wants_logits in parts:
        sequence_id += step
        yield Stretch(sequence_id, start, num_rows, wants_logits)


@given(stretches, st.integers(1, 70))
def test_separate_streams_are_cut_as_token_by_token(parts: list[tuple[int, int, int, bool]], micro_batch: int) -> None:
    rows = list(placed(parts))
    rules = replace(SEPARATE, micro_batch=micro_batch)
    assert rows_of(split(rows, rules)) == [(len(each), streams) for each, streams in cut_token_by_token(rows, rules)]


@given(stretches, st.integers(1, 70), st.booleans())
def test_every_row_is_in_one_pass(parts: list[tuple[int, int, int, bool]], micro_batch: int, unified: bool) -> None:  # noqa: FBT001
    rows = list(placed(parts))
    passes = split(rows, replace(POOL if unified else SEPARATE, micro_batch=micro_batch, tile_rows=10_000))
    assert sum(each.rows for each in passes) == sum(row.num_rows for row in rows)
    assert sum(each.logit_rows for each in passes) == sum(row.wants_logits for row in rows)
    assert sum(each.keys for each in passes) == sum(
        position + 1 for row in rows for position in range(row.start, row.start + row.num_rows)
    )


def cut_token_by_token(rows: Sequence[Stretch], rules: PassRules) -> list[tuple[list[tuple[int, int]], int]]:
    """What llama.cpp's `split_equal` does, one token after another: tokens of each pass, and its sequences."""
    waiting = {row.sequence_id: list(range(row.start, row.start + row.num_rows)) for row in rows}
    found: list[tuple[list[tuple[int, int]], int]] = []
    while any(waiting.values()):
        members: list[int] = []
        for row in rows:
            follows = not members or row.sequence_id == members[-1] + 1
            if waiting[row.sequence_id] and follows and len(members) < rules.micro_batch:
                members.append(row.sequence_id)
        taken: list[tuple[int, int]] = []
        while all(waiting[member] for member in members):
            taken += [(member, waiting[member].pop(0)) for member in members]
            if len(taken) + len(members) > rules.micro_batch:
                break
        found.append((taken, len(members)))
    return found
