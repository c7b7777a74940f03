"""The door in front of a simulated server, against a count that is made anew for each arrival."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.served import Outcome
from arriero.record.sim_rows import SimRequestRow
from arriero.record.simulation_config import SimulationConfig
from arriero.workload.records import WorkloadRecord
from tests.equivalence.lab_worlds import record
from tests.unit.sim.test_own_run import config, run

SEQUENCES = 2
ARRIVALS = st.lists(st.tuples(st.integers(0, 120), st.integers(1, 12), st.integers(1, 8)), min_size=1, max_size=25)


def limited(**limits: Any) -> SimulationConfig:  # noqa: ANN401
    return config(kv={"kind": "slots"}, limits={"sequences": SEQUENCES, **limits})


def served(setup: SimulationConfig, arrivals: list[tuple[int, int, int]]) -> list[SimRequestRow]:
    """Rows in the order of arrival."""
    records: list[WorkloadRecord] = [
        record(f"r{number:02}", at, prompt, output) for number, (at, prompt, output) in enumerate(sorted(arrivals))
    ]
    _, rows, _ = run(setup, records)
    return sorted(rows.values(), key=lambda row: row.internal_id)


def left_at(row: SimRequestRow, queue_timeout: int | None) -> int:
    """When its place was given back."""
    if row.finished_at_us is not None:
        return row.finished_at_us
    assert queue_timeout is not None, "nobody else is refused after it was let in"
    return row.arrival_at_us + queue_timeout


@given(ARRIVALS, st.integers(0, 4), st.none() | st.integers(1, 3))
def test_whoever_is_refused_finds_the_house_full_and_nobody_else_does(
    arrivals: list[tuple[int, int, int]], backlog: int, timeout_ms: int | None
) -> None:
    # times are microseconds, so a queue time-out of whole milliseconds ends a wait only in a long run
    more: dict[str, Any] = {} if timeout_ms is None else {"queue_timeout_ms": timeout_ms}
    late = None if timeout_ms is None else timeout_ms * 1000
    setup = limited(backlog=backlog, **more)
    inside: list[SimRequestRow] = []
    for row in served(setup, [(at * 50, prompt, output * 10) for at, prompt, output in arrivals]):
        num_inside = sum(left_at(each, late) > row.arrival_at_us for each in inside)
        if row.reason is not None and "in flight" in row.reason:
            assert num_inside == SEQUENCES + backlog
            assert (row.outcome, row.started_at_us, row.generated_tokens) == (Outcome.REJECTED, None, 0)
        else:
            assert num_inside < SEQUENCES + backlog
            inside.append(row)


@given(ARRIVALS)
def test_a_door_that_never_closes_changes_nothing(arrivals: list[tuple[int, int, int]]) -> None:
    assert served(limited(), arrivals) == served(limited(backlog=100, backlog_tokens=10_000), arrivals)


def test_a13_four_run_eight_wait_and_the_others_are_told() -> None:
    setup = config(kv={"kind": "slots"}, limits={"sequences": 4, "rows": 64, "backlog": 8})
    rows = served(setup, [(0, 5, 20)] * 100)
    outcomes = [row.outcome for row in rows]
    assert outcomes == [Outcome.FINISHED] * 12 + [Outcome.REJECTED] * 88
    assert {row.reason for row in rows[12:]} == {"12 requests are in flight, which is the limit; try again later"}


def test_tokens_that_wait_are_bounded() -> None:
    rows = served(limited(backlog_tokens=10), [(0, 8, 20), (0, 8, 20), (1, 9, 1), (2, 2, 1), (3, 1, 1)])
    assert [row.outcome for row in rows] == [Outcome.FINISHED] * 3 + [Outcome.REJECTED, Outcome.FINISHED]
    assert rows[3].reason == "9 prompt tokens wait and this request has 2; at most 10 may wait, so try again later"


def test_whoever_has_waited_for_long_enough_appears_as_refused() -> None:
    setup = config(
        kv={"kind": "slots"},
        limits={"sequences": 1, "queue_timeout_ms": 2},
        cost={"base_us": 1000, "prefill_row_us": 1},
    )
    rows = served(setup, [(0, 4, 10), (1, 4, 10)])
    assert [row.outcome for row in rows] == [Outcome.FINISHED, Outcome.REJECTED]
    assert (rows[1].reason, rows[1].finished_at_us, rows[1].started_at_us) == ("no slot was free in time", None, None)


def test_its_place_is_free_from_that_moment_on() -> None:
    setup = config(
        kv={"kind": "slots"},
        limits={"sequences": 1, "backlog": 1, "queue_timeout_ms": 2},
        cost={"base_us": 10_000, "prefill_row_us": 1},
    )
    rows = served(setup, [(0, 4, 3), (1, 4, 3), (1999, 4, 3), (2002, 4, 3)])
    assert [row.reason is None for row in rows] == [True, False, False, False]
    assert "in flight" in (rows[2].reason or "")
    assert rows[3].reason == "no slot was free in time", "it was let in, since the one before was told already"
