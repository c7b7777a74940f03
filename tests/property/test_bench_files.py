"""Any run goes into a result file and comes back equal, in bytes that do not change."""

from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.client_figures import ClientSlos
from arriero.metrics.client_life import ClientLife
from arriero.metrics.client_summary import summarise
from arriero.metrics.client_window import client_window
from arriero.metrics.validity import BusyProcess, judge_validity
from arriero.record.bench_parts import Point
from arriero.record.bench_result import decode_result, encode_result
from tests.property.client_runs import MS, runs
from tests.unit.record.bench_files import point, result

NEIGHBOURS = st.lists(st.builds(BusyProcess, name=st.text(min_size=1, max_size=4), cores=st.floats(0, 4)), max_size=3)


@st.composite
def points(draw: st.DrawFn) -> Point:
    run: list[ClientLife] = draw(runs())
    window = client_window(run, warm_up_ns=draw(st.integers(0, 500)) * MS, cool_down_ns=draw(st.integers(0, 500)) * MS)
    slos = draw(st.none() | st.builds(ClientSlos, ttft_ns=st.none() | st.integers(0, 900 * MS)))
    validity = judge_validity(
        run,
        window=window,
        longest_block_ns=draw(st.none() | st.integers(0, 200 * MS)),
        neighbours=draw(NEIGHBOURS),
        was_interrupted=draw(st.booleans()),
    )
    return point(run, validity=validity, summary=summarise(run, window=window, slos=slos), keep=draw(st.booleans()))


@given(st.lists(points(), min_size=1, max_size=3))
def test_a_result_comes_back_equal_and_in_the_same_bytes(several: list[Point]) -> None:
    whole = result(*several)
    text = encode_result(whole)
    assert decode_result(text, file="r.json") == whole
    assert encode_result(decode_result(text, file="r.json")) == text
