import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.lab.perf.stat_csv import by_event, parse_stat, split_event
from arriero.record.cpu_lab.perf_counters import Counter, Scope
from tests.unit.lab.perf.fake_tools import assert_refused_or_read, captured

FILE = "perf stat"
LINE = "723570,,instructions,12500000,100.00,2.64,insn per cycle"
counters = st.builds(
    Counter,
    event=st.sampled_from(["cycles", "task-clock", "L1-dcache-loads", "cpu_core/cycles/"]),
    scopes=st.sampled_from([(), (Scope.USER,), (Scope.KERNEL, Scope.USER)]),
    value=st.none() | st.integers(0, 2**50).map(float),
    unit=st.sampled_from(["", "msec"]),
    run_time_ns=st.integers(0, 2**40),
    running_percent=st.integers(0, 10000).map(lambda number: number / 100),
    reason=st.just("not counted"),
)


def written(counter: Counter) -> str:
    value = "<not counted>" if counter.value is None else f"{counter.value:.0f}"
    suffix = f":{''.join(counter.scopes)}" if counter.scopes else ""
    percent = f"{counter.running_percent:.2f}"
    return f"{value},{counter.unit},{counter.event}{suffix},{counter.run_time_ns},{percent},,"


def test_value_unit_run_time_and_share_of_time_are_read() -> None:
    (found,) = parse_stat(f"# started on a day\n\n{LINE}\n", file=FILE)
    assert found == Counter(event="instructions", value=723570.0, unit="", run_time_ns=12500000, running_percent=100.0)
    assert not found.is_multiplexed


def test_a_value_below_100_percent_is_marked() -> None:
    """The published harness threw the percentage away."""
    (found,) = parse_stat("5,,cycles,600,62.50,,\n", file=FILE)
    assert found.is_multiplexed
    assert found.running_percent == 62.5


@pytest.mark.parametrize("reason", ["not supported", "not counted"])
def test_what_was_not_counted_is_null_with_the_reason_and_not_0(reason: str) -> None:
    (found,) = parse_stat(f"<{reason}>,,cycles,0,0.00,,\n", file=FILE)
    assert found.value is None
    assert found.reason == reason
    assert not found.is_multiplexed


@pytest.mark.parametrize(
    ("word", "event", "scopes"),
    [
        ("cycles:u", "cycles", (Scope.USER,)),
        ("cycles:ppp", "cycles", (Scope.PRECISE,)),
        ("cycles:uk", "cycles", (Scope.USER, Scope.KERNEL)),
        ("sched:sched_switch", "sched:sched_switch", ()),
        ("sched:sched_switch:k", "sched:sched_switch", (Scope.KERNEL,)),
        ("cycles", "cycles", ()),
    ],
)
def test_suffixes_are_stripped_and_kept_as_a_scope(word: str, event: str, scopes: tuple[Scope, ...]) -> None:
    assert split_event(word) == (event, scopes)


def test_a_further_metric_of_an_event_is_no_counter() -> None:
    assert len(parse_stat(f"{LINE}\n,,,,,0.12,stalled cycles per insn\n", file=FILE)) == 1


def test_the_event_without_a_suffix_is_taken_where_there_are_several() -> None:
    found = by_event(parse_stat("1,,cycles:u,5,100.00,,\n3,,cycles,5,100.00,,\n2,,cycles:k,5,100.00,,\n", file=FILE))
    assert found["cycles"].value == 3.0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("many,,cycles,5,100.00,,", "'many' is no number"),
        ("nan,,cycles,5,100.00,,", "'nan' is no number"),
        ("-3,,cycles,5,100.00,,", "'-3' is no number"),
        ("1e999,,cycles,5,100.00,,", "is no number"),
        ("3,,cycles,soon,100.00,,", "the run time 'soon'"),
        ("3,,cycles,5,101.00,,", "above 100"),
        ("3,,cycles", "has 3 fields"),
        ("3,,,5,100.00,,", "has no name"),
        (LINE, "instructions stands twice"),
    ],
)
def test_a_bad_line_is_an_error_that_names_it(line: str, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        parse_stat(f"{LINE}\n{line}\n", file=FILE)
    assert caught.value.line == 2
    assert caught.value.file == FILE


def test_an_empty_file_is_no_result() -> None:
    with pytest.raises(DataError, match="no counter"):
        parse_stat("# started on a day\n\n", file=FILE)


@given(st.lists(counters, min_size=1, max_size=6, unique_by=lambda each: (each.event, each.scopes)))
def test_whatever_perf_writes_is_read_back(given_counters: list[Counter]) -> None:
    text = "\n".join(map(written, given_counters))
    found = parse_stat(text, file=FILE)
    for one, other in zip(found, given_counters, strict=True):
        assert (one.event, one.value, one.run_time_ns) == (other.event, other.value, other.run_time_ns)
        assert one.running_percent == other.running_percent
        assert set(one.scopes) == set(other.scopes)
        assert (one.reason is None) == (other.value is not None)


@given(st.text() | st.lists(st.text(alphabet="0123456789,.:<>not cuedsp#e-\n"), max_size=5).map("\n".join))
def test_garbage_is_a_data_error_and_never_a_crash(text: str) -> None:
    assert_refused_or_read(lambda: parse_stat(text, file=FILE))


def test_what_perf_wrote_on_a_machine_is_read() -> None:
    found = by_event(parse_stat(captured("stat.csv"), file=FILE))
    assert found["task-clock"].unit == "msec"
    assert found["page-faults"].value is not None
    assert found["page-faults"].value > 10
