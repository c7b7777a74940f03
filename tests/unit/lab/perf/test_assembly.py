from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import ConfigError
from arriero.lab.perf.assembly import find_function, read_assembly
from arriero.lab.perf.callers import Jump, callers, named_callers, parse_jumps
from arriero.lab.perf.functions import Extent
from arriero.lab.perf.library_folder import library_files, library_folder, library_hashes
from arriero.lab.perf.symbol_table import Symbol, find_symbol, matching, near, parse_nm
from arriero.lab.perf.targets import Gates, described
from arriero.lab.perf.tools import Tool, ask, find_tool
from arriero.metrics.symbol_families import Family
from arriero.record.cpu_lab.assembly import AssemblyFacts
from arriero.record.cpu_lab.perf_comparison import HotFunction
from arriero.record.cpu_lab.targets import Gate
from tests.unit.lab.perf.builds import stripped_library

SYMBOLS = tuple(
    Symbol(name, name, Extent(16 * number, 16 * number + 16))
    for number, name in enumerate(["ggml_gemm_q4_0_8x8_q8_0", "ggml_vec_dot_q4_0_q8_0", "f(int)", "g(int)", "g(long)"])
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stripped_library(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def objdump(library: Path) -> Tool:
    assert library.is_file()
    return find_tool("objdump")


def hot(symbol: str, share: float, *, family: Family = Family.MATRIX, resolved: bool = True) -> HotFunction:
    return HotFunction(
        rank=1, symbol=symbol, shared_object="libggml-cpu.so.0", family=family, is_resolved=resolved, share=share,
        cumulative=share, bound=1 / (1 - share),
    )  # fmt: skip


def test_a_named_function_is_found_read_and_counted(library: Path, objdump: Tool) -> None:
    place = find_function(library.parent, "ggml_sum", objdump)
    facts = read_assembly(place, objdump, with_listing=True)
    assert (facts.library, facts.symbol) == ("libggml-cpu.so", "ggml_sum")
    assert facts.is_whole
    assert len(facts.loops) == 1
    assert len(facts.listing) == facts.mix.total
    assert facts.loops[0].mix.scalar_conversions == 1
    assert facts.jumps_to is None


def test_a_function_without_a_name_is_found_by_an_address_inside_and_by_its_caller(
    library: Path, objdump: Tool
) -> None:
    front = find_function(library.parent, "ggml_gemm_q8_0", objdump)
    inside = next(jump.to for jump in _jumps_of(library, objdump) if front.extent.start <= jump.at < front.extent.end)
    place = find_function(library.parent, f"{inside:#x}", objdump, within="libggml-cpu.so.0.25")
    assert place.symbol == f"function at {inside:#x}"
    assert callers(objdump, library, place.extent) == ("ggml_gemm_q8_0", "ggml_mul_mat")
    assert find_function(library.parent, place.symbol, objdump, within="libggml-cpu.so") == place


def _jumps_of(library: Path, objdump: Tool) -> tuple[Jump, ...]:
    return parse_jumps(ask((objdump.path, "-d", "--no-show-raw-insn", "-j", ".text", str(library)), timeout_s=20))


def test_names_near_the_one_that_is_missing_are_told(library: Path, objdump: Tool) -> None:
    with pytest.raises(ConfigError, match=r"ggml_gemm_q80: no function of that name.*near ones are ggml_gemm_q8_0;"):
        find_function(library.parent, "ggml_gemm_q80", objdump)
    with pytest.raises(ConfigError, match=r"no function of libggml-cpu.so lies there"):
        find_function(library.parent, "0xffffff", objdump)
    with pytest.raises(ConfigError, match=r"holds no library libother\.so; it has libggml-cpu.so"):
        find_function(library.parent, "ggml_sum", objdump, within="libother.so")


def test_an_address_needs_the_name_of_its_file(library: Path, objdump: Tool) -> None:
    (library.parent / "libllama.so").write_bytes(library.read_bytes())
    try:
        with pytest.raises(ConfigError, match="name the file with --within"):
            find_function(library.parent, "0x1000", objdump)
    finally:
        (library.parent / "libllama.so").unlink()


def test_a_folder_is_chosen_by_flag_then_variable_and_must_hold_a_library(library: Path, tmp_path: Path) -> None:
    assert library_folder(str(library.parent), {}) == library.parent
    assert library_folder(str(library), {}) == library.parent
    assert library_folder(None, {"LLAMA_CPP_LIB_PATH": str(library.parent)}) == library.parent
    assert [path.name for path in library_files(library.parent)] == list(library_hashes(library.parent))
    with pytest.raises(ConfigError, match=r"--library .*: holds no libggml or libllama"):
        library_folder(str(tmp_path), {})


def test_a_name_without_arguments_is_enough_where_only_one_fits() -> None:
    assert find_symbol(SYMBOLS, "f") == SYMBOLS[2]
    assert find_symbol(SYMBOLS, "g") is None
    assert find_symbol(SYMBOLS, "g(int)") == SYMBOLS[3]


def test_a_pattern_fits_whole_names_and_brackets_are_letters() -> None:
    assert matching(SYMBOLS, "g(*") == ("g(int)", "g(long)")
    assert matching(SYMBOLS, "g(int?") == ("g(int)",)
    assert matching(SYMBOLS, "g") == ()


def test_near_names_share_parts() -> None:
    assert near(SYMBOLS, "vec_dot_q4_0")[0] == "ggml_vec_dot_q4_0_q8_0"
    assert near(SYMBOLS, "gemm_q4_8x8", 1) == ("ggml_gemm_q4_0_8x8_q8_0",)


def test_what_nm_prints_without_a_size_has_no_place() -> None:
    text = "0000000000001000 0000000000000010 T f@@GGML\n         U malloc\n0000000000002000 T g\n0 0 T h\n1 2 D data\n"
    assert list(parse_nm(text)) == [("f", Extent(0x1000, 0x1010))]


def test_callers_are_told_once_and_not_the_function_itself() -> None:
    jumps = [Jump(1, 100), Jump(2, 100), Jump(17, 100), Jump(104, 100), Jump(40, 7)]
    assert named_callers(jumps, SYMBOLS, Extent(100, 120)) == ("ggml_gemm_q4_0_8x8_q8_0", "ggml_vec_dot_q4_0_q8_0")


@pytest.fixture
def gates(library: Path, objdump: Tool) -> Gates:
    return Gates(folder=library.parent, objdump=objdump, least_bound=1.05, machine_bits=512)


@pytest.mark.parametrize(
    ("function", "gate", "reason"),
    [
        (hot("ggml_sum", 0.04), Gate.SHARE, "at most 1.042 times as fast"),
        (hot("ggml_sum", 0.5, family=Family.SYNCHRONISATION), Gate.KIND, "no kernel that could be taken out"),
        (hot("ggml_missing", 0.5), Gate.KIND, "no function of that name"),
        (hot("ggml_mul_mat", 0.5), Gate.KIND, "call other functions and compute nothing themselves"),
        (hot("ggml_half", 0.5), Gate.ASSEMBLY, "leave nothing"),
        (hot("ggml_sum", 0.5), None, "equal bits"),
    ],
)
def test_a_candidate_stops_at_the_first_gate_that_it_fails(
    gates: Gates, function: HotFunction, gate: Gate | None, reason: str
) -> None:
    found = gates._candidate(function)
    assert found.rejected_by is gate
    assert reason in found.reason


def test_what_is_no_code_of_llama_cpp_is_no_candidate(gates: Gates) -> None:
    other = msgspec.structs.replace(hot("memcpy", 0.5, family=Family.MEMORY_COPY), shared_object="libc.so.6")
    assert gates._candidate(other).rejected_by is Gate.KIND


def test_a_kernel_without_a_name_gets_the_family_of_its_caller(gates: Gates, library: Path, objdump: Tool) -> None:
    front = find_function(library.parent, "ggml_gemm_q8_0", objdump)
    inside = next(jump.to for jump in _jumps_of(library, objdump) if front.extent.start <= jump.at < front.extent.end)
    function = hot(f"function at {inside:#x}", 0.5, family=Family.UNKNOWN, resolved=False)
    found = gates._candidate(function)
    assert found.called_by == ("ggml_gemm_q8_0", "ggml_mul_mat")
    assert found.family is Family.MATRIX
    seen = gates._candidate(msgspec.structs.replace(function, called_by="ggml_sum"))
    assert seen.called_by == ("ggml_sum",)
    assert found.openings == ("no vector instructions in its inner loops",)
    assert found.rejected_by is None


def test_what_code_does_and_leaves_is_said_in_words(library: Path, objdump: Tool) -> None:
    facts: AssemblyFacts = read_assembly(find_function(library.parent, "ggml_sum", objdump), objdump)
    already, openings = described(facts, 512)
    assert already == (f"1 inner loop, the longest {facts.loops[0].mix.total} instructions",)
    assert openings == ("converts 1 number one at a time", "no vector instructions in its inner loops")
    assert described(None, 512) == ((), ())
