import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.lab.perf.disassembly import Instruction, parse_disassembly
from arriero.lab.perf.instruction_mix import kind_of, mix_of
from arriero.lab.perf.loops import loops_of
from arriero.record.cpu_lab.assembly import Kind, Width
from tests.unit.lab.perf.fake_tools import assert_refused_or_read, captured

FILE = "objdump"
TEXT = """
/opt/libggml-cpu.so:     file format elf64-x86-64

Disassembly of section .text:

0000000000001000 <f(int, int)>:
    1000:\tpush   %rbp
    1001:\tvmovdqu (%rax),%ymm1
    1005:\tvpdpbusd 0x20(%rax,%rdx,1),%ymm1,%ymm2
    100b:\tvcvtdq2ps %ymm2,%ymm2
    100f:\tvfmadd231ps %ymm0,%ymm2,%ymm3
    1014:\tadd    $0x40,%rax
    1018:\tcmp    %rcx,%rax
    101b:\tjne    1001 <f(int, int)+0x1>
    101d:\tvmovups %ymm3,(%rdi)
    1021:\tvmovd  %esi,%xmm4
    1025:\tvcvtph2ps %xmm4,%xmm4
    102a:\tcall   2000 <g@plt>
    102f:\tcs nopw 0x0(%rax,%rax,1)
    1038:\tjne    1000 <f(int, int)>
    103a:\tret    # the end
"""


def one(mnemonic: str, operands: str) -> Instruction:
    return Instruction(0, mnemonic, operands, None, None)


def test_instructions_and_the_targets_of_jumps_are_read() -> None:
    found = parse_disassembly(TEXT, file=FILE)
    assert len(found) == 15
    assert found[2] == Instruction(0x1005, "vpdpbusd", "0x20(%rax,%rdx,1),%ymm1,%ymm2", None, None)
    assert (found[7].target, found[7].target_name) == (0x1001, "f(int, int)+0x1")
    assert (found[12].mnemonic, found[14].operands) == ("nopw", "")


def test_each_instruction_has_one_kind() -> None:
    mix = mix_of(parse_disassembly(TEXT, file=FILE))
    assert mix.kinds == {
        Kind.BRANCH: 3, Kind.SCALAR: 4, Kind.CONVERSION: 2, Kind.INTEGER_DOT: 1, Kind.FMA: 1,
        Kind.LOAD: 1, Kind.STORE: 1, Kind.CALL: 1, Kind.PADDING: 1,
    }  # fmt: skip
    assert sum(mix.kinds.values()) == mix.total == 15
    assert mix.widths == {Width.BITS_256: 5, Width.BITS_128: 1}
    assert (mix.memory_reads, mix.memory_writes) == (2, 1)
    assert mix.scalar_conversions == 1


@pytest.mark.parametrize(
    ("mnemonic", "operands", "kind"),
    [
        ("vpmaddubsw", "%zmm1,%zmm2,%zmm3", Kind.INTEGER_DOT),
        ("vdpbf16ps", "%zmm1,%zmm2,%zmm3", Kind.FMA),
        ("vfnmadd213ss", "%xmm1,%xmm2,%xmm3", Kind.FMA),
        ("vpmovzxbw", "(%rax),%ymm1", Kind.CONVERSION),
        ("cvtsi2ss", "%eax,%xmm0", Kind.CONVERSION),
        ("vbroadcastss", "(%rax),%ymm1", Kind.LOAD),
        ("mov", "%rax,0x8(%rsp)", Kind.STORE),
        ("mov", "%fs:0x28,%rax", Kind.LOAD),
        ("mov", "%rax,%rbx", Kind.SCALAR),
        ("lea", "0x8(%rax),%rbx", Kind.SCALAR),
        ("vaddps", "(%rax),%ymm1,%ymm2", Kind.VECTOR),
        ("vpabsd", "%zmm1,%zmm2", Kind.VECTOR),
        ("mulsd", "%xmm1,%xmm2", Kind.SCALAR),
        ("vpxor", "%xmm1,%xmm1,%xmm1", Kind.SCALAR),
        ("vpxor", "%xmm1,%xmm2,%xmm1", Kind.VECTOR),
        ("jmp", "*%rax", Kind.BRANCH),
        ("endbr64", "", Kind.PADDING),
        ("xchg", "%ax,%ax", Kind.PADDING),
        ("xchg", "%eax,(%rdi)", Kind.SCALAR),
    ],
)
def test_kinds_follow_from_name_and_operands(mnemonic: str, operands: str, kind: Kind) -> None:
    assert kind_of(one(mnemonic, operands)) is kind


def test_a_jump_back_ends_a_loop_and_the_inner_one_is_known() -> None:
    outer, inner = loops_of(parse_disassembly(TEXT, file=FILE))
    assert (outer.start, outer.end, outer.is_innermost) == (0x1000, 0x1038, False)
    assert (inner.start, inner.end, inner.is_innermost) == (0x1001, 0x101B, True)
    assert inner.mix.total == 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no instruction"),
        ("  10:\tnop\n  f:\tnop\n", "line 2: addresses go back"),
        ("  10:\t(bad)\n", "line 1: bytes that objdump does not know"),
    ],
)
def test_what_is_no_code_is_an_error(text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        parse_disassembly(text, file=FILE)


@given(st.text() | st.lists(st.text(alphabet="0123456789abcdef:\t %(),<>jmpx"), max_size=6).map("\n".join))
def test_garbage_is_a_data_error_and_never_a_crash(text: str) -> None:
    found = assert_refused_or_read(lambda: parse_disassembly(text, file=FILE)) or ()
    assert mix_of(found).total == len(found)
    loops_of(found)


def test_the_code_that_a_compiler_made_is_counted() -> None:
    found = parse_disassembly(captured("vec_dot.asm"), file=FILE)
    (loop,) = loops_of(found)
    assert loop.is_innermost
    assert loop.mix.kinds[Kind.CONVERSION] >= 2
    assert loop.mix.scalar_conversions == loop.mix.kinds[Kind.CONVERSION]
