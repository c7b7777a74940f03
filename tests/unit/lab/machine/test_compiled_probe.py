import platform
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from arriero.core.errors import ConfigError
from arriero.lab.compile import Compiler, find_compilers
from arriero.lab.machine.ceilings import CeilingPlan
from arriero.lab.machine.compiled_probe import FLAGS, SOURCES, CompiledProbe, samples, variants_of
from arriero.lab.machine.environment import isa_of
from arriero.lab.process import Finished, run_process
from arriero.record.cpu_lab.machine_result import CeilingKind

PLAN = CeilingPlan(threads=(1, 2), isa=("avx2", "fma"), array_bytes=2**20, milliseconds=1, repetitions=2)


def ended(command: Sequence[str], **changes: object) -> Finished:
    values: dict[str, object] = {
        "command": tuple(command), "return_code": 0, "stdout": "", "stderr": "", "elapsed_s": 0.1, "timed_out": False,
        "interrupted": False, "peak_rss_kib": None, "launch_error": None, "usage": None,
    }  # fmt: skip
    return Finished(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    found = next(iter(find_compilers().values()), None)
    if found is None:
        pytest.skip("no C compiler here")
    return found


@pytest.fixture(scope="module")
def fake_compiler() -> Compiler:
    """Builds nothing, and says that it did."""
    return Compiler(name="gcc", path=Path("/bin/true"), version="gcc 99.1.0")


class Programs:
    """Plays both programs."""

    def __init__(self, **changes: object) -> None:
        self.commands: list[list[str]] = []
        self.changes = changes

    def __call__(self, command: Sequence[str], *, timeout_s: float) -> Finished:
        assert timeout_s > 0
        self.commands.append([Path(command[0]).name, *command[1:]])
        names = ["read", "copy", "triad"] if "bandwidth" in command[0] else [command[1]]
        lines = [f"{name} 1000 {100 + turn}" for turn in range(2) for name in names]
        return ended(command, **{"stdout": "\n".join(lines), **self.changes})


def probe(programs: Programs, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> CompiledProbe:
    def built(_self: Compiler, _sources: Sequence[Path], _flags: Sequence[str], out: Path) -> Path:
        return out

    monkeypatch.setattr(Compiler, "build", built)
    return CompiledProbe(compiler=compiler, run=programs)


def test_every_kind_is_measured_at_every_number_of_threads(
    fake_compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, told = Programs(), list[str]()
    found = probe(programs, fake_compiler, monkeypatch).measure(PLAN, told.append)
    assert programs.commands[:2] == [["bandwidth", "1", "1048576", "2"], ["bandwidth", "2", "1048576", "2"]]
    assert ["peak", "int8-avx2", "2", "1", "2"] in programs.commands
    assert len(told) == len(programs.commands) == 6
    assert [(each.kind.value, each.variant, each.threads) for each in found.ceilings] == [
        (kind, variant, threads)
        for kind, variant in (
            ("memory-read", "stream"), ("memory-copy", "stream"), ("memory-triad", "stream"), ("int8-dot", "avx2"),
            ("fp32-fma", "fma"),
        )
        for threads in (1, 2)
    ]  # fmt: skip
    assert found.ceilings[0].rates == (1000 / 100 * 1e9, 1000 / 101 * 1e9)
    assert found.reasons == {}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"return_code": 4}, "cannot build it"),
        ({"return_code": -9}, "signal 9"),
        ({"return_code": 3, "stderr": "no room for 5 bytes\nmore"}, "status 3: no room for 5 bytes"),
        ({"timed_out": True, "return_code": -15}, "longer than"),
        ({"return_code": None, "launch_error": "not executable"}, "not executable"),
        ({"stdout": ""}, "wrote nothing"),
        ({"stdout": "read 5"}, "no measurement"),
    ],
)
def test_a_program_that_fails_leaves_a_reason_and_the_others_go_on(
    changes: dict[str, object], says: str, fake_compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = probe(Programs(**changes), fake_compiler, monkeypatch).measure(PLAN, lambda _line: None)
    assert found.ceilings == ()
    assert len(found.reasons) == 6
    assert all(says in why for why in found.reasons.values())


@pytest.mark.parametrize(
    ("isa", "variants"),
    [
        (("avx2", "fma"), ("fp32-fma", "int8-avx2")),
        (("avx2", "avx_vnni", "fma"), ("fp32-fma", "int8-avx_vnni", "int8-avx2")),
        (("avx2",), ("int8-avx2", "fp32-compiler")),
        (("asimd",), ("fp32-compiler", "int8-compiler")),
    ],
)
def test_variants_are_those_that_the_cpu_can_run(isa: tuple[str, ...], variants: tuple[str, ...]) -> None:
    assert variants_of(isa) == variants


@pytest.mark.parametrize("line", ["read 5", "read 5 x", "read 0 5", "read 5 0", "other 5 5", "", "read 5 5 5"])
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(ConfigError):
        list(samples(line))


def test_the_programs_build_and_run_here(compiler: Compiler) -> None:
    isa = isa_of()
    plan = CeilingPlan(threads=(1, 2), isa=isa, array_bytes=2**20, milliseconds=1, repetitions=2)
    found = CompiledProbe(compiler=compiler).measure(plan, lambda _line: None)
    assert {each.kind for each in found.ceilings} == set(CeilingKind)
    assert len(found.ceilings) + len(found.reasons) == 2 * (3 + len(variants_of(isa)))
    assert all(len(each.rates) == 2 for each in found.ceilings)
    assert all("cannot build it" in why for why in found.reasons.values())


def test_every_program_refuses_wrong_words(compiler: Compiler, tmp_path: Path) -> None:
    for name, words in (("bandwidth", ["0", "65536", "1"]), ("peak", ["fp32-compiler", "1", "x", "1"])):
        program = compiler.build(
            [SOURCES / f"{name}.c"], ["-O1", "-pthread", "-Wall", "-Wextra", "-Werror"], tmp_path / name
        )
        assert run_process([str(program), *words], timeout_s=20).return_code == 2
        assert run_process([str(program)], timeout_s=20).return_code == 2
    assert run_process([str(tmp_path / "peak"), "int8-none", "1", "1", "1"], timeout_s=20).return_code == 4


def test_plain_loops_run_everywhere(compiler: Compiler) -> None:
    plan = CeilingPlan(threads=(1,), isa=(), array_bytes=2**20, milliseconds=1, repetitions=1)
    found = CompiledProbe(compiler=compiler).measure(plan, lambda _line: None)
    assert {each.variant for each in found.ceilings} == {"stream", "compiler"}
    assert found.reasons == {}


CHAINS = {
    "fp32_avx512f": ("vfmadd", 16),
    "fp32_fma": ("vfmadd", 12),
    "int8_avx512_vnni": ("vpdpbusd", 16),
    "int8_avx2": ("vpmaddubsw", 8),
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86")
def test_no_compiler_computes_one_chain_for_all(compiler: Compiler, tmp_path: Path) -> None:
    """A peak that counts operations which are not done would be higher than the hardware's."""
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("no objdump here")
    program = compiler.build([SOURCES / "peak.c"], FLAGS, tmp_path / "peak")
    text = run_process([objdump, "-d", "--no-show-raw-insn", str(program)], timeout_s=20).stdout
    functions = dict(re.findall(r"^[0-9a-f]+ <(\w+)>:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE))
    for name, (instruction, number) in CHAINS.items():
        assert functions[name].count(instruction) >= number, name
