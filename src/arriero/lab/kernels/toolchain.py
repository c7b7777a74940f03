"""The kernels' sources, the flags that they are built with, and why a machine or compiler is skipped."""

import platform
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from arriero.lab.compile import Compiler
from arriero.lab.file_hash import file_sha256

SOURCES: Final = Path(__file__).resolve().parent / "sources"
FLAGS: Final = ("-std=gnu11", "-O3", "-mavx2", "-mfma", "-mf16c", "-ffp-contract=off")
"""No AVX-512 and no VNNI: the kernels are those of a machine with AVX2.

Contraction is off, so that only the multiply-adds that stand in the sources are fused.
"""

_NEEDED: Final = ("avx2", "fma", "f16c")
_X86: Final = frozenset({"x86_64", "amd64"})


def skip_reason(machine: str, cpu: AbstractSet[str] | None) -> str | None:
    """Why the kernels cannot run on a machine; None if they can.

    Args:
        machine: its architecture, as `platform.machine()` says it.
        cpu: the flags of its CPU; None if they cannot be read.
    """
    if machine.lower() not in _X86:
        return f"the kernels are written for AVX2; this machine is {machine or 'unknown'}"
    if cpu is None:
        return "the CPU's instruction sets cannot be read here"
    missing = [flag for flag in _NEEDED if flag not in cpu]
    return f"this CPU lacks {', '.join(missing)}" if missing else None


def machine_name() -> str:
    """The architecture that this process runs on."""
    return platform.machine()


def source_files() -> tuple[Path, ...]:
    """The C files, by name."""
    return tuple(sorted(SOURCES.glob("*.c")))


def source_hashes() -> dict[str, str]:
    """Base name -> SHA-256 of every source, headers included."""
    files = sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.h")])
    return {path.name: file_sha256(path) for path in files}


def build_kernels(compiler: Compiler, folder: Path, flags: Sequence[str] = FLAGS) -> Path:
    """The library of one compiler.

    Raises:
        ConfigError: it refuses the sources or the flags.
    """
    return compiler.build(source_files(), flags, folder / f"kernels-{compiler.name}.so", shared=True)
