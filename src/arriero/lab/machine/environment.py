"""lab_environment: everything about this machine and this llama.cpp that stands beside a figure."""

from functools import lru_cache
from pathlib import Path
from typing import Final

from arriero.core.errors import BindingMismatch
from arriero.core.version import VERSION
from arriero.lab.compile import find_compilers
from arriero.lab.machine.library_files import library_facts
from arriero.record.cpu_lab.environment import LabEnvironment, LibraryFacts, environment_fingerprint
from arriero.record.machine import ROOT, file_text, machine_facts
from arriero.record.provenance import revision

# Prefixes of the kernel's words for instruction sets that matrix kernels are written for: x86, then Arm, then RISC-V.
_ISA: Final = (
    "sse", "ssse3", "avx", "fma", "f16c", "bmi", "popcnt", "amx",
    "asimd", "fphp", "sve", "sme",  # codespell:ignore sme
    "i8mm", "bf16", "fcma", "zve", "zvfh",
)  # fmt: skip
_NO_ISA: Final = frozenset({"smep"})  # protects the kernel
_FLAG_LINES: Final = ("flags", "Features", "isa")


def lab_environment(*, root: Path = ROOT) -> LabEnvironment:
    """Read it now; compilers and the revision are asked once in a process.

    A missing binding is no error here: `library` is null, with the reason.

    Args:
        root: where `proc` and `sys` are.
    """
    machine = machine_facts(root)
    isa = isa_of(root)
    library, reason = _library()
    version, is_dirty = _revision()
    reasons = {} if reason is None else {"library": reason}
    if version is None:
        reasons["revision"] = "no checkout, or no git"
    return LabEnvironment(
        machine=machine,
        isa=isa,
        compilers=dict(_compilers()),
        library=library,
        version=VERSION,
        revision=version,
        is_dirty=is_dirty,
        fingerprint=environment_fingerprint(machine, isa, library),
        reasons=reasons,
    )


def isa_of(root: Path = ROOT) -> tuple[str, ...]:
    """The instruction sets of the first CPU that matter to matrix kernels, sorted; empty where nothing tells them."""
    for line in (file_text(root / "proc/cpuinfo") or "").splitlines():
        name, _, words = line.partition(":")
        if name.strip() in _FLAG_LINES:
            return tuple(sorted({word for word in words.split() if word.startswith(_ISA) and word not in _NO_ISA}))
    return ()


def _library() -> tuple[LibraryFacts | None, str | None]:
    try:
        return library_facts(), None
    except BindingMismatch as problem:
        return None, str(problem)


@lru_cache(maxsize=1)
def _compilers() -> tuple[tuple[str, str], ...]:
    return tuple((name, compiler.version) for name, compiler in find_compilers().items())


@lru_cache(maxsize=1)
def _revision() -> tuple[str | None, bool]:
    state = revision()
    return state.revision, state.is_dirty
