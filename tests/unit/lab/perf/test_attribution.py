from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.lab.perf.attribution import Label, Part, attribution, base_names, report_parts
from arriero.lab.perf.functions import Extent, FunctionTable, function_tables, nameless, parse_frames
from arriero.lab.perf.report_text import parse_report
from arriero.metrics.symbol_families import Family
from arriero.record.cpu_lab.perf_attribution import CallGraph, Measure

LABEL = Label(Measure.CPU_CLOCK, CallGraph.DWARF, "a note")
FRAMES = """
00000018 000000000000001c 00000000 CIE
000000ac 000000000000002c 000000b0 FDE cie=00000000 pc=0000000000139640..0000000000139f00
  DW_CFA_advance_loc: 1 to 0000000000139641
000000dc 000000000000002c 000000b0 FDE cie=00000000 pc=0000000000014b10..0000000000014b20
"""


def table(name: str) -> FunctionTable:
    return parse_frames(FRAMES) if name == "libggml-cpu.so" else FunctionTable(())


def test_functions_without_a_name_are_known_by_the_unwind_table() -> None:
    found = parse_frames(FRAMES)
    assert found.extents == (Extent(0x14B10, 0x14B20), Extent(0x139640, 0x139F00))
    assert found.at(0x139EFF) == Extent(0x139640, 0x139F00)
    assert found.at(0x139F00) is None
    assert found.at(0x14B0F) is None
    assert nameless(0x139E40, "libggml-cpu.so", table) == "function at 0x139640"
    assert nameless(0x5, "libggml-cpu.so", table) == "unresolved"
    assert nameless(None, "libggml-cpu.so", table) == "unresolved"


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200))), st.integers(0, 250))
def test_an_address_lies_in_at_most_one_function(pairs: list[tuple[int, int]], address: int) -> None:
    found = parse_frames("\n".join(f"x FDE cie=0 pc={start:x}..{end:x}" for start, end in pairs))
    holding = [each for each in found.extents if each.start <= address < each.end]
    assert found.at(address) == (holding[0] if holding else None)
    assert len(holding) <= 1


def test_a_file_that_is_none_has_no_functions(tmp_path: Path) -> None:
    tables = function_tables(None, {"a.so": tmp_path})
    assert tables("a.so") == FunctionTable(())
    assert tables("b.so") == FunctionTable(())


def test_rows_are_merged_by_symbol_and_object_and_nameless_ones_by_function() -> None:
    text = (
        "30.00%|30|libggml-cpu.so|[.] ggml_barrier\n"
        "20.00%|20|libgomp.so.1|[.] ggml_barrier\n"
        "10.00%|10|libggml-cpu.so|[k] ggml_barrier\n"
        "25.00%|25|libggml-cpu.so|[.] 0x0000000000139e40\n"
        "14.95%|15|libggml-cpu.so|[.] 0x0000000000139640\n"
        "0.05%|0|libc.so.6|[.] qsort\n"
    )
    report = parse_report(text, file="x")
    found = attribution(report_parts(report, table), LABEL, total=report.samples)
    assert [(row.symbol, row.shared_object, round(row.share, 4), row.count) for row in found.rows] == [
        ("ggml_barrier", "libggml-cpu.so", 0.4, 40),
        ("function at 0x139640", "libggml-cpu.so", 0.3995, 40),
        ("ggml_barrier", "libgomp.so.1", 0.2, 20),
    ]
    assert [row.is_resolved for row in found.rows] == [True, False, True]
    assert found.rows[0].family is Family.SYNCHRONISATION
    assert found.rows[1].family is Family.UNKNOWN
    assert found.left_out == pytest.approx(0.0005)


def test_a_function_without_a_name_has_the_family_of_its_caller() -> None:
    parts = [Part("function at 0x10", "a.so", 1.0, 5, is_resolved=False)]
    (row,) = attribution(parts, LABEL, total=5, callers={"function at 0x10 [a.so]": "ggml_flash_attn_ext"}).rows
    assert (row.family, row.called_by) == (Family.ATTENTION, "ggml_flash_attn_ext")


def test_many_small_rows_of_one_function_are_not_lost_below_the_limit() -> None:
    """With perf's own limit each of these addresses would vanish, and half of the time with them."""
    parts = [Part("function at 0x139640", "a.so", 0.0005, 1, is_resolved=False) for _ in range(1000)]
    found = attribution([*parts, Part("main", "a", 0.5, 1000, is_resolved=True)], LABEL, total=2000)
    assert len(found.rows) == 2
    assert found.rows[0].share == pytest.approx(0.5)
    assert found.left_out == 0.0


def test_files_are_known_by_their_base_name() -> None:
    assert base_names(["/opt/a.so", "[vdso]", "//anon"]) == {"a.so": "/opt/a.so", "anon": "//anon"}
