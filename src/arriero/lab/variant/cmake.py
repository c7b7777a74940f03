"""cmake: sources configured and built with stated words, both builds of a variant with the same ones."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.core.errors import ConfigError
from arriero.lab.process import run_process
from arriero.record.cpu_lab.variant import BuildFacts

Tell = Callable[[str], None]


class Isa(StrEnum):
    """Instruction sets that a build may use."""

    AVX2 = "avx2"
    NATIVE = "native"


_ORIGIN: Final = "@loader_path" if sys.platform == "darwin" else "$ORIGIN"
_COMMON: Final = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",  # the libraries find one another wherever their folder is
    f"-DCMAKE_INSTALL_RPATH={_ORIGIN}",
    "-DGGML_CCACHE=OFF",
    "-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_TOOLS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)  # fmt: skip
_AVX2: Final = (
    "-DGGML_NATIVE=OFF",
    "-DGGML_SSE42=ON", "-DGGML_AVX=ON", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON",
    "-DGGML_AVX_VNNI=OFF", "-DGGML_AVX512=OFF", "-DGGML_AVX512_VBMI=OFF", "-DGGML_AVX512_VNNI=OFF",
    "-DGGML_AVX512_BF16=OFF", "-DGGML_AMX_TILE=OFF", "-DGGML_AMX_INT8=OFF", "-DGGML_AMX_BF16=OFF",
)  # fmt: skip
DEFINITIONS: Final = MappingProxyType({
    Isa.AVX2: (*_COMMON, *_AVX2),
    Isa.NATIVE: (*_COMMON, "-DGGML_NATIVE=ON"),
})

# As the installed binding is built: its first prefill crashes in the tile unit's set-up.
_WITHOUT_AMX: Final = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")
_PROGRESS: Final = re.compile(r"^\s*\[\s*(?:(\d+)/(\d+)|(\d+)%)\]")
# Most telling first: what a compiler or linker says, then what cmake, ninja and make say of it.
_COMPLAINTS: Final = (
    re.compile(r"\berror: |undefined reference|cannot find -l"),
    re.compile(r"\berror\b|FAILED", re.IGNORECASE),
)
_PATIENCE_S: Final = 600.0
_STEP: Final = 10  # percent between two lines of progress


class Recipe(NamedTuple):
    """How both builds of a variant are made."""

    cmake: Path
    generator: str
    definitions: tuple[str, ...]
    flags: tuple[str, ...]
    target: str
    jobs: int
    facts: BuildFacts

    def configure(self, source: Path, build: Path) -> None:
        """Write the build files.

        Raises:
            ConfigError: cmake refuses; carries its first complaint.
        """
        words = [str(self.cmake), "-S", str(source), "-B", str(build), "-G", self.generator, *self.definitions]
        flags = " ".join(self.flags)
        if flags:
            words += [f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"]
        done = run_process(words, timeout_s=_PATIENCE_S)
        if done.return_code != 0:
            raise ConfigError(f"cmake cannot configure the sources: {_complaint(done.stderr)}")

    def build(self, folder: Path, what: str, tell: Tell) -> None:
        """Compile the target; what is up to date is not compiled again.

        Raises:
            ConfigError: it does not compile; carries the first complaint.
        """
        words = [str(self.cmake), "--build", str(folder), "--target", self.target, "--parallel", str(self.jobs)]
        status, output = _watched(words, what, tell)
        if status != 0:
            raise ConfigError(f"the {what} does not build: {_complaint(output)}")


def make_recipe(isa: Isa, target: str, jobs: int) -> Recipe:
    """The words for an instruction set on this machine.

    Raises:
        ConfigError: cmake or a C++ compiler is missing.
    """
    cmake, compiler = _tool("cmake"), _compiler()
    generator = "Ninja" if _which("ninja") is not None else "Unix Makefiles"
    takes = run_process([str(compiler), *_WITHOUT_AMX, "-E", "-x", "c++", os.devnull], timeout_s=60).return_code == 0
    flags = _WITHOUT_AMX if isa is Isa.NATIVE and takes else ()
    facts = BuildFacts(
        isa=isa.value,
        target=target,
        definitions=DEFINITIONS[isa],
        compiler_flags=flags,
        compiler=_first_line([str(compiler), "--version"]),
        cmake=_first_line([str(cmake), "--version"]),
        generator=generator,
    )
    return Recipe(cmake, generator, DEFINITIONS[isa], flags, target, jobs, facts)


def _watched(words: Sequence[str], what: str, tell: Tell) -> tuple[int, str]:
    """Run a build and tell how far it is; an interrupt ends it first."""
    with subprocess.Popen(  # noqa: S603 - cmake with words of our own, never a shell
        list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", env={**os.environ, "LC_ALL": "C", "NINJA_STATUS": "[%f/%t] "},
    ) as child:  # fmt: skip
        assert child.stdout is not None, "it was asked for"
        try:
            output = "".join(_told(child.stdout, what, tell))
        except BaseException:
            child.terminate()
            raise
    return child.returncode, output


def _told(lines: Iterable[str], what: str, tell: Tell) -> Iterator[str]:
    """The same lines, told about at every tenth of the way."""
    told = -_STEP
    for line in lines:
        percent = _percent(line)
        if percent is not None and percent >= told + _STEP:
            told = percent
            tell(f"{what}: {percent} % compiled")
        yield line


def _percent(line: str) -> int | None:
    match = _PROGRESS.match(line)
    if match is None:
        return None
    done, total, percent = match.groups()
    return int(percent) if percent else 100 * int(done) // max(1, int(total))


def _complaint(text: str) -> str:
    """The most telling line; paths are cut to their last part."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()] or ["it said nothing"]
    found = (at for pattern in _COMPLAINTS for at, line in enumerate(lines) if pattern.search(line))
    at = next(found, len(lines) - 1)
    # cmake says only the place in the line with the word, and the matter in the next
    line = " ".join(lines[at : at + 2]) if lines[at].startswith("CMake Error") else lines[at]
    return re.sub(r"(?:/[^\s/:]+)+/", "", line)


def _tool(name: str) -> Path:
    found = _which(name)
    if found is None:
        raise ConfigError(f"{name} not found; install it (Debian: apt-get install {name}, or pip install {name})")
    return found


def _which(name: str) -> Path | None:
    """On the path, else in this environment."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.prefix) / "bin"))
    return None if found is None else Path(found)


def _compiler() -> Path:
    """The C++ compiler that cmake will take.

    Raises:
        ConfigError: there is none.
    """
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else ("c++", "g++", "clang++"):
        if (found := _which(name)) is not None:
            return found
    raise ConfigError("no C++ compiler found; install one (Debian: apt-get install g++)")


def _first_line(words: Sequence[str]) -> str:
    return run_process(words, timeout_s=60).stdout.partition("\n")[0].strip() or Path(words[0]).name
