from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.explain_origins import MAX_LINE, Leader, Line, Origins, Span, waits
from arriero.metrics.explain_parts import Share


def leader(request_id: int, *chunks: tuple[int, int, int]) -> Leader:
    """A request whose chunks, (begin, end, first position), follow one another or not."""
    made = Leader(request_id)
    before = 0
    for begin, end, position in chunks:
        made.lead(before, Span(begin, end), position)
        before = end
    return made


def ids(line: Line) -> list[int]:
    return [each.request_id for each in line]


def started(origins: Origins, request_id: int, sequence_id: int, *, is_filled: bool = True) -> list[int]:
    """Who computed what a request starts from."""
    return ids(origins.start(Leader(request_id), sequence_id, is_filled=is_filled))


def test_a_copy_names_who_computed_its_source() -> None:
    origins = Origins()
    assert started(origins, 1, 0, is_filled=False) == []
    origins.copied(0, 1)
    assert started(origins, 2, 1) == [1]
    origins.copied(1, 2)
    assert started(origins, 3, 2) == [2, 1]


def test_a_line_is_bounded() -> None:
    origins = Origins()
    for number in range(2 * MAX_LINE):
        origins.copied(number, number + 1)
        started(origins, number, number + 1)
    origins.copied(2 * MAX_LINE, 99)
    assert started(origins, 99, 99) == [7, 6, 5, 4]


def test_a_start_in_the_place_of_a_run_goes_on_from_its_request() -> None:
    origins = Origins()
    started(origins, 1, 0, is_filled=False)
    assert started(origins, 2, 0) == [1]


def test_a_start_that_computes_everything_has_no_origin_whatever_lay_there() -> None:
    origins = Origins()
    started(origins, 1, 0, is_filled=False)
    assert started(origins, 2, 0, is_filled=False) == []
    origins.copied(0, 1)
    assert started(origins, 3, 1) == [2]


def test_a_run_keeps_its_origin_in_the_host_store_until_that_forgets_it() -> None:
    origins = Origins()
    started(origins, 1, 0, is_filled=False)
    origins.saved(0, 5)
    origins.dropped(0)
    origins.restored(3, 5)
    assert started(origins, 2, 3) == [1]
    origins.forgotten(5)
    origins.restored(4, 5)
    assert started(origins, 3, 4) == []


def test_what_moves_takes_its_origin_along() -> None:
    origins = Origins()
    started(origins, 1, 4, is_filled=False)
    origins.moved(4, 2)
    origins.dropped(4)
    origins.copied(2, 3)
    assert started(origins, 2, 3) == [1]


def test_what_is_saved_or_restored_in_a_step_is_known_until_the_next_one() -> None:
    origins = Origins()
    origins.saved(1, 1)
    origins.restored(2, 1)
    assert [origins.was_swapped(each) for each in (0, 1, 2)] == [False, True, True]
    origins.begin_step()
    assert not any(map(origins.was_swapped, (0, 1, 2)))


def test_a_request_waited_while_its_leader_computed_and_no_longer() -> None:
    one = leader(1, (100, 150, 0), (155, 200, 32), (205, 260, 64))
    # the pauses between its steps are waiting, too
    assert waits((one,), [Span(120, 300)], 96) == (Share(1, 140), Share(None, 40))
    assert waits((one,), [Span(0, 80), Span(110, 130)], 96) == (Share(1, 20), Share(None, 80))
    assert waits((one,), [Span(270, 300)], 96) == (Share(None, 30),)
    assert waits((one,), [], 96) == ()


def test_what_the_leader_computed_behind_the_shared_beginning_does_not_count() -> None:
    one = leader(1, (100, 150, 0), (155, 200, 32), (205, 260, 64))
    assert waits((one,), [Span(100, 300)], 64) == (Share(1, 100), Share(None, 100))
    assert waits((one,), [Span(100, 260)], 65) == (Share(1, 160),)
    assert waits((one,), [Span(100, 300)], 0) == (Share(None, 200),)


def test_steps_in_which_the_leader_had_its_prompt_done_or_no_slot_do_not_count() -> None:
    one = Leader(1)
    one.lead(0, Span(100, 150), 0)
    one.lead(180, Span(200, 250), 32)  # the step before ended at 180, and its prompt was not under way
    assert waits((one,), [Span(0, 300)], 64) == (Share(1, 100), Share(None, 200))


def test_no_moment_counts_for_two_leaders() -> None:
    near, far = leader(2, (100, 200, 0)), leader(1, (150, 250, 0))
    assert waits((near, far), [Span(0, 300)], 10) == (Share(2, 100), Share(1, 50), Share(None, 150))


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=5)


def chunks_of(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Spans one after the other, each after a pause."""
    found, now = [], 0
    for number, (pause, length) in enumerate(spans):
        found.append((now + pause, now + pause + length, number))
        now += pause + length
    return found


@given(st.lists(SPANS, max_size=3), st.integers(0, 100), st.integers(0, 100), st.integers(0, 6))
def test_waits_are_the_moments_in_which_somebody_of_the_line_computed(
    every: list[list[tuple[int, int]]], begin: int, length: int, num_tokens: int
) -> None:
    line: list[Leader] = []
    busy: list[set[int]] = []
    for number, spans in enumerate(every):
        chunks = chunks_of(spans)
        made = Leader(number)
        for chunk_begin, chunk_end, position in chunks:
            made.lead(-1, Span(chunk_begin, chunk_end), position)  # each a span of its own
        line.append(made)
        busy.append({t for first, last, position in chunks if position < num_tokens for t in range(first, last)})
    shares = waits(tuple(line), [Span(begin, begin + length)], num_tokens)
    assert sum(share.time for share in shares) == length
    found = {share.request_id: share.time for share in shares}
    seen: set[int] = set()
    for number, moments in enumerate(busy):
        own = {t for t in moments - seen if begin <= t < begin + length}
        assert found.get(number, 0) == len(own)
        seen |= moments
