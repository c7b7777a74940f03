import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.lab.perf.callgrind_out import InstructionRow, parse_callgrind
from tests.unit.lab.perf.fake_tools import assert_refused_or_read, captured

FILE = "callgrind"
TEXT = """\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd:  ./hot 20
positions: line
events: Dr Ir
summary: 9 159

ob=(1) /opt/libggml-cpu.so
fl=(1) /src/a.c
fn=(7) ggml_vec_dot_q8_0_q8_0
12 1 100
+1 1
fi=(2) /src/b.h
cob=(2) /opt/libgomp.so.1
cfn=(9) gomp_barrier
calls=3 88
* 0 900
14 0 20

ob=(2)
fn=(9)
88 0 30
ob=(1)
fn=(11) walk'2
5 0 4
fn=(12) walk
5 0 5
totals: 9 159
"""


def test_instructions_of_a_function_leave_its_callees_out() -> None:
    found = parse_callgrind(TEXT, file=FILE)
    assert found.total == 159
    assert found.rows == (
        InstructionRow("ggml_vec_dot_q8_0_q8_0", "libggml-cpu.so", 120),
        InstructionRow("gomp_barrier", "libgomp.so.1", 30),
        InstructionRow("walk", "libggml-cpu.so", 9),
    )


def test_a_file_that_is_cut_off_is_refused() -> None:
    with pytest.raises(DataError, match="add up to 120 instructions, its total is 159"):
        parse_callgrind(TEXT.partition("ob=(2)\nfn=(9)")[0], file=FILE)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("fn=(99)", r"\(99\) was not named before"),
        ("hello", "no line of callgrind's"),
        ("12 many", "the cost 'many'"),
        ("events: Dr", "are without Ir"),
        ("totals:", "not those of the events"),
    ],
)
def test_a_bad_line_is_an_error_that_names_it(line: str, says: str) -> None:
    head = "events: Ir\nfn=(1) main\n1 5\n"
    with pytest.raises(DataError, match=says) as caught:
        parse_callgrind(f"{head}{line}\ntotals: 5\n", file=FILE)
    assert caught.value.line == 4


def test_costs_before_the_first_function_are_refused() -> None:
    with pytest.raises(DataError, match="before the first function"):
        parse_callgrind("events: Ir\n1 5\n", file=FILE)


@pytest.mark.parametrize("text", ["", "events: Ir\ntotals: 0\n", "events: Ir\nfn=(1) main\n1 5\n"])
def test_a_file_without_instructions_or_total_is_no_result(text: str) -> None:
    with pytest.raises(DataError, match="no instruction"):
        parse_callgrind(text, file=FILE)


@given(st.text() | st.lists(st.text(alphabet="0123456789()=fnobcalsevntIr:+-* "), max_size=8).map("\n".join))
def test_garbage_is_a_data_error_and_never_a_crash(text: str) -> None:
    assert_refused_or_read(lambda: parse_callgrind(text, file=FILE))


def test_what_callgrind_wrote_on_a_machine_is_read() -> None:
    found = parse_callgrind(captured("callgrind.out"), file=FILE)
    assert found.rows[0].symbol == "vec_dot"
    assert sum(row.instructions for row in found.rows) == found.total
