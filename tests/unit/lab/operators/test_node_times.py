import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from arriero.lab.operators.bench import Call
from arriero.lab.operators.node_times import (
    fits_packets,
    fits_stamps,
    node_times,
    packet_times,
    price_of_cut,
    stamped_times,
    with_packets,
    with_stamps,
)
from arriero.lab.operators.recorder import EVENT, Kind
from tests.unit.record.cpu_lab.operator_files import nodes

PASSES = ((0,), (1, 2), (4,))


def stamped_call(*, began: int, at: list[int], ended: int) -> Call:
    kinds = [Kind.ASKED, *[Kind.STAMPED] * (len(at) - 1)]
    events = np.array([(each, 0, kind) for each, kind in zip(at, kinds, strict=True)], EVENT)
    return Call(began, ended, events, b"")


def packet_call(spent: list[int]) -> Call:
    found, now = [], 0
    for each in spent:
        found += [(now, 1, Kind.ASKED), (now + each, 1, Kind.COMPUTED)]
        now += each + 5
    return Call(0, now, np.array(found, EVENT), b"")


@given(st.lists(st.integers(0, 10**9), min_size=4, max_size=4), st.integers(0, 10**6), st.integers(0, 10**6))
def test_before_passes_and_after_are_the_whole_call(gaps: list[int], before: int, after: int) -> None:
    at = np.cumsum([before, *gaps[1:]]).tolist()
    call = stamped_call(began=0, at=at, ended=at[-1] + after)
    times = stamped_times([call], PASSES)
    assert int(times.before[0] + times.ns.sum() + times.after[0]) == call.ns


def test_the_first_node_of_a_pass_has_its_time() -> None:
    calls = [
        stamped_call(began=0, at=[10, 20, 50, 150], ended=160),
        stamped_call(began=0, at=[10, 24, 54, 156], ended=160),
    ]
    found = with_stamps(nodes(1, stamped=False), stamped_times(calls, PASSES))
    assert [None if node.stamped is None else node.stamped.median_ns for node in found] == [12, 30, None, None, 101]
    assert [node.joined for node in found] == [False, False, True, False, False]


def test_calls_whose_stamps_do_not_fit_are_told() -> None:
    call = stamped_call(began=0, at=[10, 20, 50, 150], ended=160)
    assert fits_stamps(call, 3)
    assert not fits_stamps(call, 2)
    assert not fits_stamps(packet_call([1, 2]), 3)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20))
def test_packets_have_the_time_between_question_and_word(spent: list[int]) -> None:
    call = packet_call(spent)
    assert fits_packets(call, len(spent))
    assert not fits_packets(call, len(spent) + 1)
    assert packet_times([call]).tolist() == [spent]


def test_nodes_apart_and_the_price_of_a_cut() -> None:
    calls = [packet_call([100, 200, 300, 7, 500]), packet_call([110, 210, 310, 9, 510])]
    found = with_packets(nodes(1), packet_times(calls))
    assert [node.apart.median_ns for node in found if node.apart is not None] == [105, 205, 305, 8, 505]
    assert price_of_cut(found) == 8


def test_a_graph_in_which_everything_computes_has_no_price() -> None:
    assert price_of_cut([replace(node, operation="ADD") for node in nodes(1)]) is None


def test_a_clock_that_went_back_counts_as_nothing() -> None:
    assert node_times(np.array([[-5, 10]]))[0].median_ns == 0


def test_quartiles_surround_the_median() -> None:
    (time,) = node_times(np.array([[10], [20], [30], [40], [1000]]))
    assert (time.low_ns, time.median_ns, time.high_ns) == pytest.approx((20, 30, 40))
