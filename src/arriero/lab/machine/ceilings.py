"""Ceilings: memory bandwidth and arithmetic peaks by number of threads, by whichever probe this machine allows.

Programs in C where there is a compiler, numpy where there is none; the result says which, since numpy's figures are
those of numpy's loops. A ceiling that could not be measured is missing with a reason, and the others are kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from arriero.record.cpu_lab.machine_details import MachineDetails
from arriero.record.cpu_lab.machine_result import Ceiling

MIB: Final = 2**20
MIN_ARRAY_BYTES: Final = 64 * MIB
CACHES: Final = 4
"""How many times as large as the last level of cache an array is, so that little of it is found there again."""

MEMORY_SHARE: Final = 8
"""An array takes at most this part of the memory that is free; there are three."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingPlan:
    """What to measure.

    Attributes:
        threads: numbers of threads, ascending.
        isa: instruction sets of the CPU, by the kernel's names.
        array_bytes: of each of three arrays; a multiple of 4096.
        milliseconds: of each repetition of a peak, about.
        repetitions: that count.
    """

    threads: tuple[int, ...]
    isa: tuple[str, ...]
    array_bytes: int
    milliseconds: int
    repetitions: int


class Measured(NamedTuple):
    """What a probe found."""

    ceilings: tuple[Ceiling, ...]
    reasons: dict[str, str]  # name of what is missing -> why


class Probe(Protocol):
    """A way to measure ceilings."""

    @property
    def method(self) -> str:
        """In words, for the result."""
        ...

    def measure(self, plan: CeilingPlan, tell: Tell) -> Measured:
        """Measure all that the plan asks for; `tell` hears what is next."""
        ...


def plan_ceilings(
    details: MachineDetails, isa: tuple[str, ...], *, quick: bool, threads: Sequence[int] | None = None
) -> CeilingPlan:
    """The plan for a machine.

    Args:
        details: of the machine.
        isa: see `CeilingPlan`.
        quick: short and small, to see that it works: arrays may lie in the caches.
        threads: to measure; without any powers of two and all usable CPUs.
    """
    cpus = len(details.usable_cpus)
    powers = {2**power for power in range(cpus.bit_length())} | {cpus}
    wanted = MIN_ARRAY_BYTES // 4 if quick else max(MIN_ARRAY_BYTES, CACHES * details.largest_cache_bytes)
    free = [size for size in (details.memory_available_bytes, details.memory_limit_bytes) if size is not None]
    size = min([wanted, *(each // MEMORY_SHARE for each in free)])
    return CeilingPlan(
        threads=tuple(sorted(set(threads) if threads else powers)),
        isa=isa,
        array_bytes=max(MIB, size // 4096 * 4096),
        milliseconds=10 if quick else 100,
        repetitions=3 if quick else 9,
    )
