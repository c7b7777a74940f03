"""NumpyProbe: ceilings by numpy where there is no compiler; what its loops reach, and so labelled.

The triad takes two passes and moves five arrays instead of three; it counts what it moves. There is no int8 peak: numpy
has no dot product of bytes that sums into int32 by vector instructions. Matrix products choose their threads.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.lab.machine.ceilings import CeilingPlan, Measured, Tell
from arriero.record.cpu_lab.machine_result import Ceiling, CeilingKind

VARIANT: Final = "numpy"
SIDE: Final = 1024
"""Rows and columns of the matrices; three of them fit into a cache of the second or third level."""

Array = NDArray[np.float64]
Kernel = Callable[[Array, Array, Array], object]


def _triad(a: Array, b: Array, c: Array) -> object:
    np.multiply(c, 3.0, out=a)
    return np.add(a, b, out=a)


_KERNELS: Final[MappingProxyType[CeilingKind, tuple[int, Kernel]]] = MappingProxyType({
    CeilingKind.READ: (1, lambda a, _b, _c: np.add.reduce(a)),
    CeilingKind.COPY: (2, lambda a, b, _c: np.copyto(b, a)),
    CeilingKind.TRIAD: (5, _triad),
})
"""Kind -> arrays moved, and the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumpyProbe:
    """Ceilings by numpy's loops.

    Attributes:
        clock: monotonic, in ns.
    """

    clock: Callable[[], int] = time.perf_counter_ns

    @property
    def method(self) -> str:
        """In words, for the result."""
        return f"numpy {np.__version__} (no C compiler): what its loops reach, not what the hardware can"

    def measure(self, plan: CeilingPlan, tell: Tell) -> Measured:
        """Measure what numpy can."""
        arrays = [np.full(plan.array_bytes // 8, value, dtype=np.float64) for value in (1.0, 2.0, 3.0)]
        found: list[Ceiling] = []
        for kind in _KERNELS:
            for threads in plan.threads:
                tell(f"numpy {kind} at {threads} threads")
                found.append(self._memory(kind, threads, arrays, plan.repetitions))
        tell("numpy matrix product")
        found.append(self._product(plan.repetitions))
        return Measured(tuple(found), {CeilingKind.INT8.value: "numpy has no dot product of bytes; install gcc"})

    def _memory(self, kind: CeilingKind, threads: int, arrays: list[Array], repetitions: int) -> Ceiling:
        times, kernel = _KERNELS[kind]
        length = len(arrays[0])
        edges = [length * thread // threads for thread in range(threads + 1)]
        parts = [tuple(array[begin:end] for array in arrays) for begin, end in pairwise(edges)]
        with ThreadPoolExecutor(threads) as pool:

            def work() -> None:
                for future in [pool.submit(kernel, *part) for part in parts]:
                    future.result()

            rates = self._rates(work, times * length * 8, repetitions)
        return Ceiling(kind=kind, variant=VARIANT, threads=threads, rates=rates)

    def _product(self, repetitions: int) -> Ceiling:
        left = np.full((SIDE, SIDE), 0.5, dtype=np.float32)
        out = np.empty_like(left)
        rates = self._rates(lambda: np.matmul(left, left, out=out), 2 * SIDE**3, repetitions)
        return Ceiling(kind=CeilingKind.FP32, variant=VARIANT, threads=None, rates=rates)

    def _rates(self, work: Callable[[], object], amount: int, repetitions: int) -> tuple[float, ...]:
        """Amounts per second, after one run that does not count."""
        work()
        found: list[float] = []
        for _ in range(repetitions):
            begun = self.clock()
            work()
            found.append(amount / max(1, self.clock() - begun) * 1e9)
        return tuple(found)
