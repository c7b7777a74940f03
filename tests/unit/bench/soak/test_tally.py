"""From lives to a leg's record: allowed ends, gaps beside the neighbour, what a server must have counted."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.client_errors import ErrorKind
from arriero.bench.neighbour import Visit
from arriero.bench.soak.load import LegRun
from arriero.bench.soak.plan import Kind
from arriero.bench.soak.records import NOTED, GapSums, LegRecord
from arriero.bench.soak.tally import expected_ends, gap_sums, is_error, may_be_counted, record_of
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.soak.soaks import MS, S, life, reading


def record(*lives: tuple[Kind, ClientLife], target_ms: int = 0, visits: tuple[Visit, ...] = ()) -> LegRecord:
    run = LegRun(lives=list(lives), num_asked=len(lives), visits=list(visits), ended_at=60 * S)
    return record_of(
        run, number=3, server=2, before=reading(requests=10), after=reading(requests=10 + len(lives)),
        target_ms=target_ms, longest_block_ns=7,
    )  # fmt: skip


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_a_request_that_is_left_may_end_by_its_client(kind: Kind, outcome: Outcome) -> None:
    allowed = {Outcome.LENGTH, Outcome.STOP, Outcome.REJECTED}
    if kind is Kind.LEFT:
        allowed.add(Outcome.CANCELLED_BY_CLIENT)
    assert (outcome in expected_ends(kind)) == (outcome in allowed)


def test_a_record_counts_every_end_and_notes_surprises() -> None:
    bad = [(Kind.LONG, life(f"bad-{number}", Outcome.ERROR, status=500)) for number in range(NOTED + 5)]
    found = record((Kind.CLIENT, life("a")), (Kind.CLIENT, life("b", Outcome.REJECTED, status=503)), *bad)
    assert found.ends == {
        Kind.CLIENT: {Outcome.LENGTH: 1, Outcome.REJECTED: 1}, Kind.LONG: {Outcome.ERROR: NOTED + 5},
    }  # fmt: skip
    assert (found.num_surprises, len(found.surprises), found.num_errors) == (NOTED + 5, NOTED, NOTED + 5)
    assert found.surprises[0].request_id == "bad-0"
    assert (found.num_ended, found.asked, found.num_finished) == (NOTED + 7, NOTED + 7, 1)
    assert (found.number, found.server, found.seconds, found.longest_block_ns) == (3, 2, 60, 7)


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [(200, None, False), (503, "http_503", False), (500, "http_500", True), (504, "http_504", True),
     (429, "http_429", False), (200, ErrorKind.ERROR_EVENT, True), (None, ErrorKind.CONNECTION_REFUSED, False)],
)  # fmt: skip
def test_a_refusal_is_no_error_of_the_server(status: int | None, error: str | None, expected: bool) -> None:  # noqa: FBT001 - a table
    assert is_error(life(outcome=Outcome.ERROR, status=status, error=error)) is expected


def test_a_server_must_have_counted_what_it_answered_and_nothing_that_was_not_sent() -> None:
    lives = [life(), life(outcome=Outcome.CANCELLED_BY_CLIENT, status=None), life(sent_at=None, status=None)]
    assert may_be_counted(lives) == (1, 2)


def test_gaps_stand_apart_if_the_neighbour_was_there_for_a_moment_of_them() -> None:
    stream = life(moments=(0, 10 * MS, 30 * MS, 60 * MS))
    quiet, beside = gap_sums([stream], [(15 * MS, 20 * MS)], 25)
    assert beside == GapSums(count=1, total_ns=20 * MS, held_ns=20 * MS, worst_ns=20 * MS)
    assert quiet == GapSums(count=2, total_ns=40 * MS, held_ns=10 * MS, worst_ns=30 * MS)
    assert (quiet + beside).held_share == 0.5
    assert GapSums().held_share is None


stays_of = st.lists(st.integers(0, 100), min_size=2, max_size=8, unique=True).map(
    lambda ends: list(zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False))
)


@given(moments=st.lists(st.integers(0, 100), min_size=2, max_size=8), stays=stays_of, target=st.integers(0, 1))
def test_no_gap_is_lost_and_each_stands_on_its_side(
    moments: list[int], stays: list[tuple[int, int]], target: int
) -> None:
    ordered = tuple(sorted(moments))
    quiet, beside = gap_sums([life(moments=ordered)], stays, target)
    gaps = list(pairwise(ordered))
    met = [b - a for a, b in gaps if any(begin < b and end > a for begin, end in stays)]
    assert (beside.count, beside.total_ns) == (len(met), sum(met))
    assert quiet.count + beside.count == len(gaps)
    assert quiet.total_ns + beside.total_ns == ordered[-1] - ordered[0]


def test_slow_readers_are_in_no_gap() -> None:
    stream = life(moments=(0, 10 * MS))
    found = record((Kind.SLOW, stream), (Kind.CLIENT, stream), target_ms=5)
    assert (found.quiet.count, found.quiet.held_ns) == (1, 0)
    assert found.first_p50_ns == 0


def test_a_p99_needs_a_hundred_gaps() -> None:
    def p99(count: int) -> float | None:
        return record((Kind.CLIENT, life(moments=tuple(range(0, (count + 1) * MS, MS))))).gap_p99_ns

    assert (p99(99), p99(100)) == (None, MS)


def test_cpu_time_is_known_if_that_of_every_visit_is() -> None:
    assert record(visits=(Visit(1.0, 0.5), Visit(2.0, 1.0))).visit_cpu_s == 1.5
    assert record(visits=(Visit(1.0, 0.5), Visit(2.0, None))).visit_cpu_s is None
    assert record().visit_s == 0
