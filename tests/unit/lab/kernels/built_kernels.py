"""The compiled kernels, built once for all tests of a process."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from arriero.backend.cpu_features import features_of_cpu
from arriero.lab.compile import Compiler, find_compilers
from arriero.lab.kernels.library import KernelLibrary
from arriero.lab.kernels.toolchain import build_kernels, machine_name, skip_reason

SKIP = skip_reason(machine_name(), features_of_cpu(Path("/proc/cpuinfo"))) or (
    None if find_compilers() else "no C compiler"
)
needs_kernels = pytest.mark.skipif(SKIP is not None, reason=str(SKIP))


@cache
def _folder() -> "tempfile.TemporaryDirectory[str]":
    """Goes when the process ends."""
    return tempfile.TemporaryDirectory()


@cache
def kernels_file(compiler: str) -> Path:
    """One compiler's build."""
    return build_kernels(find_compilers()[compiler], Path(_folder().name))


@cache
def kernels(compiler: str) -> KernelLibrary:
    """The same, loaded."""
    return KernelLibrary(kernels_file(compiler))


def any_kernels() -> KernelLibrary:
    """By the first compiler that is here."""
    return kernels(next(iter(find_compilers())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Compiler):
    """A compiler that has built the kernels already."""

    def build(
        self,
        sources: Sequence[Path],
        flags: Sequence[str],
        out: Path,
        *,
        shared: bool = False,
        libs: Sequence[str] = (),
    ) -> Path:
        """Copy the library."""
        assert sources
        assert flags
        assert shared
        assert not libs
        return Path(shutil.copy2(kernels_file(self.name), out))


def finished_compilers() -> Mapping[str, Compiler]:
    """Those that are here."""
    found = find_compilers().items()
    return {name: Finished(name=name, path=each.path, version=each.version) for name, each in found}
