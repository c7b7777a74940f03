"""Which instruction sets a build of llama.cpp uses, and which this CPU has.

llama.cpp names its own features, the kernel names the CPU's; the table lists those that decide speed on x86.
On other machines nothing is compared: their builds choose at run time, or there is only one choice.
"""

from collections.abc import Set as AbstractSet
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

# llama.cpp's word -> all of the kernel's words that the build then needs
FEATURES: Final = MappingProxyType({
    "AVX": ("avx",),
    "AVX2": ("avx2",),
    "F16C": ("f16c",),
    "FMA": ("fma",),
    "BMI2": ("bmi2",),
    "AVX512": ("avx512f", "avx512cd", "avx512vl", "avx512dq", "avx512bw"),
    "AVX512_VBMI": ("avx512vbmi",),
    "AVX512_VNNI": ("avx512_vnni",),
    "AVX512_BF16": ("avx512_bf16",),
    "AVX_VNNI": ("avx_vnni",),
    "AMX_INT8": ("amx_int8", "amx_tile"),
})

NOT_MISSED: Final = frozenset({"AMX_INT8"})  # our own builds leave it out: this llama.cpp crashes on it


class FeatureDifference(NamedTuple):
    """Instruction sets by llama.cpp's names, in the order of `FEATURES`."""

    lacking_in_cpu: tuple[str, ...]  # the build uses them, the CPU has them not: it would crash
    unused_by_build: tuple[str, ...]  # the CPU has them, the build uses them not: it is slow


def features_of_build(system_info: str) -> frozenset[str]:
    """The features that llama.cpp's line `CPU : AVX = 1 | AVX2 = 1 | ...` says are compiled in."""
    words = system_info.replace(":", "|").split("|")
    pairs = (word.partition("=") for word in words)
    return frozenset(name.strip() for name, _, value in pairs if value.strip() == "1")


def features_of_cpu(cpuinfo: Path) -> frozenset[str] | None:
    """The flags of the first CPU in a file like /proc/cpuinfo; None where it cannot be read or has no `flags`."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return None
    flags = next((line for line in lines if line.startswith("flags")), None)
    return None if flags is None else frozenset(flags.partition(":")[2].split())


def compare_features(build: AbstractSet[str], cpu: AbstractSet[str] | None) -> FeatureDifference:
    """What the build needs beyond the CPU, and what it leaves unused; nothing if the CPU is unknown."""
    if cpu is None:
        return FeatureDifference((), ())
    has = {name: cpu >= frozenset(flags) for name, flags in FEATURES.items()}
    return FeatureDifference(
        tuple(name for name in FEATURES if name in build and not has[name]),
        tuple(name for name in FEATURES if name not in build | NOT_MISSED and has[name]),
    )
