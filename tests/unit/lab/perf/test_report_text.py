import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.lab.perf.report_text import parse_report, shares_of
from tests.unit.lab.perf.fake_tools import assert_refused_or_read, captured

FILE = "perf report"
HEAD = (
    "# Total Lost Samples: 3\n#\n# Samples: 100  of event 'cpu-clock:pppH'\n#\n"
    "# Overhead|Samples|Shared Object|Symbol\n"
)
ROW = "60.00%|60|libggml-cpu.so|[.] ggml_vec_dot_q8_0_q8_0"


def test_share_samples_object_and_symbol_are_read() -> None:
    found = parse_report(f"{HEAD}    {ROW}\n    40.00%|40|[kernel]|[k] clear_page\n", file=FILE)
    first, second = found.rows
    assert (first.event, first.share, first.samples) == ("cpu-clock:pppH", 0.6, 60)
    assert (first.shared_object, first.symbol, first.address) == ("libggml-cpu.so", "ggml_vec_dot_q8_0_q8_0", None)
    assert (second.shared_object, second.symbol) == ("[kernel]", "clear_page")
    assert found.samples == 100
    assert found.lost == 3


@pytest.mark.parametrize(
    ("symbol", "address"),
    [("[.] 0x0000000000139e40", 0x139E40), ("[k] 0xffffffff81000000", 0xFFFFFFFF81000000), ("[.] [unknown]", None)],
)
def test_a_function_without_a_name_keeps_its_address(symbol: str, address: int | None) -> None:
    (row,) = parse_report(f"{HEAD}100.00%|9|lib.so|{symbol}\n", file=FILE).rows
    assert row.symbol is None
    assert row.address == address


def test_names_may_hold_what_separates_fields() -> None:
    (row,) = parse_report(f"{HEAD}100.00%|9|lib.so|[.] operator|(A, B)\n", file=FILE).rows
    assert row.symbol == "operator|(A, B)"


def test_two_kinds_of_core_are_pooled_by_samples() -> None:
    other = HEAD.replace("cpu-clock:pppH", "cpu_atom/cycles/P").replace("100", "300")
    found = parse_report(f"{HEAD}100.00%|100|a.so|[.] f\n{other}100.00%|300|a.so|[.] f\n", file=FILE)
    assert shares_of(found.rows) == [0.25, 0.75]
    assert found.lost == 6


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("60.00%|60|libggml-cpu.so", "has 3 fields, not 4"),
        ("most|60|lib.so|[.] f", "the overhead 'most' is no number"),
        ("160.00%|60|lib.so|[.] f", "above 100 %"),
        ("60.00%|6K|lib.so|[.] f", "the number of samples '6K'"),
        ("6.00%|6||[.] f", "lacks an object or a symbol"),
        ("6.00%|6|lib.so|[.] ", "lacks an object or a symbol"),
        ("6.00%|6|lib.so|[.] 0x11112222333344445", "is no address"),
    ],
)
def test_a_bad_line_is_an_error_that_names_it(line: str, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        parse_report(f"{ROW}\n{line}\n", file=FILE)
    assert caught.value.line == 2


def test_shares_of_two_reports_are_not_one() -> None:
    with pytest.raises(DataError, match="add up to 120"):
        parse_report(f"{ROW}\n{ROW}\n", file=FILE)


def test_more_samples_than_a_record_can_hold_are_refused() -> None:
    rows = "".join(f"50.00%|{2**63 - 1}|lib.so|[.] {name}\n" for name in "fg")
    with pytest.raises(DataError, match="its samples add up to more than there can be"):
        parse_report(rows, file=FILE)


def test_a_report_without_samples_is_no_result() -> None:
    with pytest.raises(DataError, match="no sample"):
        parse_report(HEAD, file=FILE)


@given(st.text() | st.lists(st.text(alphabet="0123456789.%|[]kxf# abc"), max_size=5).map("\n".join))
def test_garbage_is_a_data_error_and_never_a_crash(text: str) -> None:
    assert_refused_or_read(lambda: parse_report(text, file=FILE))


def test_what_perf_wrote_on_a_machine_is_read() -> None:
    found = parse_report(captured("report.txt"), file=FILE)
    shares = dict(zip([row.symbol for row in found.rows], shares_of(found.rows), strict=True))
    assert shares["vec_dot"] > 0.5
    assert found.samples == 40
