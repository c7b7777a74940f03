import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.lab.perf.attribution import merged, report_parts
from arriero.lab.perf.folded import fold, nameless_callers
from arriero.lab.perf.functions import Extent, FunctionTable, parse_frames
from arriero.lab.perf.report_text import parse_report
from arriero.lab.perf.script_text import Frame, Stack, parse_script
from arriero.record.cpu_lab.folded_stacks import decode_stacks
from tests.unit.lab.perf.fake_tools import assert_refused_or_read, captured

FILE = "perf script"
TEXT = """\
python 812 PERF_RECORD_MMAP2 811/811: [0x7f1000(0x2000) @ 0x1000 fe:00 42 0]: r-xp /opt/libggml-cpu.so
python 812 PERF_RECORD_MMAP2 811/811: [0x7f9000(0x2000) @ 0 fe:00 42 0]: rw-p /opt/data
llama worker 812    10101010 cpu-clock:pppH:
\t          7f1010 ggml_vec_dot_q8_0_q8_0+0x10 (/opt/libggml-cpu.so)
\t          7f1234 [unknown] (/opt/libggml-cpu.so)
\t          7f1800 void f<int (int)>(int (*)(int)) (/opt/libggml-cpu.so)
\t              12 [unknown] ([unknown])

python 812    20202020 cpu-clock:pppH:
\tffffffff81000000 clear_page_erms ([kernel.kallsyms])
\t          7f1800 main (/opt/a (deleted))

"""


def no_table(_: str) -> FunctionTable:
    return FunctionTable(())


def test_threads_periods_and_frames_are_read() -> None:
    found = parse_script(TEXT, file=FILE)
    first, second = found.stacks
    assert (first.thread, first.period, first.event) == ("llama worker", 10101010, "cpu-clock:pppH")
    assert first.frames == (
        Frame("ggml_vec_dot_q8_0_q8_0", "/opt/libggml-cpu.so", 0x1010),
        Frame(None, "/opt/libggml-cpu.so", 0x1234),
        Frame("void f<int (int)>(int (*)(int))", "/opt/libggml-cpu.so", 0x1800),
        Frame(None, "[unknown]", None),
    )
    assert [frame.file for frame in second.frames] == ["[kernel.kallsyms]", "/opt/a (deleted)"]
    assert found.files == ("/opt/libggml-cpu.so",)


def test_stacks_are_folded_from_the_outermost_and_nameless_frames_by_function() -> None:
    def table(name: str) -> FunctionTable:
        return FunctionTable((Extent(0x1200, 0x1300),) if name == "libggml-cpu.so" else ())

    found = fold(parse_script(TEXT, file=FILE).stacks, table)
    assert found.stacks == (
        (("main [a]", "clear_page_erms [kernel]"), 20202020),
        (
            (
                "unresolved [unknown]",
                "void f<int (int)>(int (*)(int)) [libggml-cpu.so]",
                "function at 0x1200 [libggml-cpu.so]",
                "ggml_vec_dot_q8_0_q8_0 [libggml-cpu.so]",
            ),
            10101010,
        ),
    )
    assert decode_stacks(found.encode(), file="x.folded") == found


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("python 812 10 cycles:\n\n", 2, "has no frame"),
        ("\t 7f f (/a)\n", 1, "no frame of a sample"),
        ("python cycles\n", 1, "no head of a sample"),
        ("python 812 10 cycles:\n\t 7f f /a\n", 2, "no frame of a sample"),
        ("python 812 10 cycles:\n\t 7f f (/a)\nnonsense\n", 3, "no head of a sample"),
    ],
)
def test_a_bad_line_is_an_error_that_names_it(text: str, line: int, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        parse_script(text, file=FILE)
    assert caught.value.line == line


def test_more_than_a_record_can_hold_is_refused() -> None:
    sample = f"python 812    {2**63 - 1} cycles:\n\t          7f1800 main (/opt/a)\n\n"
    with pytest.raises(DataError, match="the periods of its samples add up to more than there can be"):
        parse_script(sample * 2, file=FILE)


def test_a_script_without_samples_is_no_result() -> None:
    with pytest.raises(DataError, match="no sample"):
        parse_script("\n# a comment\n", file=FILE)


@given(st.text() | st.lists(st.text(alphabet="0123456789abcf()[]/:+x \tPERF_CODMA2@"), max_size=6).map("\n".join))
def test_garbage_is_a_data_error_and_never_a_crash(text: str) -> None:
    assert_refused_or_read(lambda: parse_script(text, file=FILE))


names = st.text(max_size=12)


@given(st.lists(st.tuples(names, names, st.integers(1, 10**9)), min_size=1, max_size=5))
def test_folded_stacks_of_any_names_are_read_back(frames: list[tuple[str, str, int]]) -> None:
    stacks = [Stack("t", "cycles", period, (Frame(symbol, f"/{file}", None),)) for symbol, file, period in frames]
    found = fold(stacks, no_table)
    assert decode_stacks(found.encode(), file="x.folded") == found
    assert found.weight == sum(period for _, _, period in frames)


@given(st.binary(max_size=60))
def test_a_damaged_file_of_stacks_is_a_data_error(data: bytes) -> None:
    assert_refused_or_read(lambda: decode_stacks(data, file="x.folded"))


def test_what_perf_wrote_on_a_machine_is_read() -> None:
    found = parse_script(captured("script.txt"), file=FILE)
    outermost_last = {frame.symbol for stack in found.stacks for frame in stack.frames}
    assert {"vec_dot", "decode", "main"} <= outermost_last
    assert any(file.endswith("/hot") for file in found.files)


def test_samples_of_a_stripped_library_are_given_to_the_functions_of_its_unwind_table() -> None:
    def tables(name: str) -> FunctionTable:
        return parse_frames(captured("frames-stripped.txt")) if name == "libhots.so" else FunctionTable(())

    stacks = fold(parse_script(captured("script-stripped.txt"), file=FILE).stacks, tables)
    assert nameless_callers(stacks) == {
        "function at 0x1139 [libhots.so]": "decode",
        "function at 0x1177 [libhots.so]": "decode",
    }
    innermost = {frames[-1] for frames, _ in stacks.stacks}
    assert innermost <= {"function at 0x1139 [libhots.so]", "function at 0x1177 [libhots.so]"}
    parts = report_parts(parse_report(captured("report-stripped.txt"), file=FILE), tables)
    assert [(row.symbol, round(row.share, 4)) for row in sorted(merged(parts), key=lambda row: row.symbol)] == [
        ("function at 0x1139", 0.5946),
        ("function at 0x1177", 0.4054),
    ]
