from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.lab.code_difference import LONGEST, compare_code, compare_files, compare_symbols
from arriero.lab.compile import require_compiler
from arriero.lab.object_code import Code, demangled, missing_tool, normalise, parse_listing, symbol_codes

LISTING = """
x.so:     file format elf64-x86-64


Disassembly of section .text:

0000000000001100 <first>:
    1100:\tendbr64
    1104:\tlea    0xef5(%rip),%rax        # 2000 <table>
    110b:\tjmp    1120 <first+0x20>
    110d:\tnopl   (%rax)
    1110:\tdata16 cs nopw 0x0(%rax,%rax,1)
    111b:\txchg   %ax,%ax
    1120:\tcall   1030 <puts@plt>
    1125:\tmov    0x10(%rsp),%rax

0000000000001200 <second.isra.0>:
    1200:\tret
"""
has_tools = pytest.mark.skipif(missing_tool() is not None, reason="binutils are not here")


def test_a_listing_becomes_instructions_without_places() -> None:
    assert dict(parse_listing(LISTING)) == {
        "first": (
            "endbr64",
            "lea (%rip),%rax",
            "jmp <first>",
            "call <puts@plt>",
            "mov 0x10(%rsp),%rax",
        ),
        "second.isra.0": ("ret",),
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lea 0xef5(%rip),%rax # 2000 <t>", "lea -0x12(%rip),%rax # 9000 <t>"),
        ("jne 1120 <f+0x20>", "jne 9930 <f+0x130>"),
        ("vmovaps  0x10(%rip), %ymm0", "vmovaps (%rip), %ymm0"),
    ],
)
def test_places_make_no_difference(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("mov 0x10(%rsp),%rax", "mov 0x18(%rsp),%rax"), ("jne 1 <f>", "je 1 <f>"), ("call 1 <f>", "call 1 <g>")],
)
def test_operands_and_names_do(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_a_difference_counts_mnemonics_and_lines() -> None:
    before = Code(30, ("mov a,b", "vcvtph2ps a,b", "vcvtph2ps c,d", "ret"))
    after = Code(28, ("mov a,b", "vcvtph2ps a,b", "vshufps a,b", "ret"))
    found = compare_code("f", before, after)
    assert (found.removed, found.added, found.changed_lines) == ({"vcvtph2ps": 1}, {"vshufps": 1}, 2)
    assert not found.is_equal
    assert compare_code("f", before, Code(99, before.instructions)).is_equal


def test_a_symbol_on_one_side_only_is_told() -> None:
    found = compare_code("f", None, Code(1, ("ret",)))
    assert found.before is None
    assert found.added == {"ret": 1}
    assert not found.is_equal


def test_very_long_code_is_not_compared_line_by_line() -> None:
    long = Code(None, ("ret",) * (LONGEST + 1))
    assert compare_code("f", long, Code(None, ("nop",))).changed_lines is None


def test_equal_symbols_are_left_out() -> None:
    one = {"a": Code(1, ("ret",)), "b": Code(2, ("nop", "ret")), "gone": Code(1, ("ret",))}
    other = {"a": Code(9, ("ret",)), "b": Code(2, ("ret",)), "new": Code(1, ("ret",))}
    assert [each.symbol for each in compare_symbols(one, other)] == ["b", "gone", "new"]


@has_tools
def test_object_files_are_compared_by_the_code_in_them(tmp_path: Path) -> None:
    compiler = require_compiler()
    source = tmp_path / "f.c"
    source.write_text("int same(int a) { return a + 1; }\nint other(int a) { return a * FACTOR; }\n")
    files = [
        compiler.build([source], ["-O2", f"-DFACTOR={factor}", "-c"], tmp_path / f"{factor}.o") for factor in (8, 100)
    ]
    assert [each.symbol for each in compare_files(*files)] == ["other"]
    codes = symbol_codes(files[0], ["other"])
    assert list(codes) == ["other"]
    size = codes["other"].size_bytes
    assert size is not None
    assert size > 0
    assert list(symbol_codes(files[0])) == ["same", "other"]


@has_tools
def test_a_file_without_code_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.o"
    path.write_text("no object")
    with pytest.raises(ConfigError, match=r"nm: .*; name an object file or a shared library"):
        symbol_codes(path)


@has_tools
def test_names_of_cplusplus_are_written_as_people_write_them() -> None:
    assert demangled(["_ZN3foo3barEi", "main"]) == {"_ZN3foo3barEi": "foo::bar(int)", "main": "main"}
    assert demangled([]) == {}
