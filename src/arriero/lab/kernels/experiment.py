"""Experiment: one kernel in two forms, with the gates that its candidate has to pass and the sizes it is timed at."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np

from arriero.lab.kernels.blocks import Operands
from arriero.lab.kernels.library import KernelLibrary
from arriero.lab.kernels.reference import Double, Single
from arriero.lab.kernels.timing import Contestant, Turns
from arriero.record.cpu_lab.kernels import GateRow

SEED: Final = 20261130


class Amounts(NamedTuple):
    """How much is compared."""

    pairs: int  # random pairs of scales, beside the adversarial ones
    cases: int  # random tiles or rows at each size, beside the adversarial ones


FULL: Final = Amounts(pairs=10_000, cases=2_000)
QUICK: Final = Amounts(pairs=1_000, cases=40)


class Bout(NamedTuple):
    """Those that are timed at one size, and what differences of their results are relative to."""

    contestants: Sequence[Contestant]
    magnitude: Double


class Seats(NamedTuple):
    """Makes contestants that work on the same operands, each with a result of its own."""

    library: KernelLibrary
    operands: Operands
    shape: tuple[int, ...]  # of a result

    def taken(
        self, label: str, role: Literal["baseline", "candidate", "ggml"], timer: str, kernel: int, *extra: object
    ) -> Contestant:
        """One contestant; see `KernelLibrary.time` for the last three."""
        out: Single = np.zeros(self.shape, dtype=np.float32)

        def run(calls: int) -> int:
            return self.library.time(timer, kernel, self.operands, out, calls, *extra)

        return Contestant(label, role, run, out)


class Experiment(Protocol):
    """See the module."""

    @property
    def name(self) -> str:
        """As in tables and flags."""
        ...

    @property
    def says(self) -> str:
        """What the candidate does otherwise."""
        ...

    @property
    def symbols(self) -> tuple[str, str]:
        """Baseline and candidate in the compiled library."""
        ...

    @property
    def unit(self) -> str:
        """What its sizes count, such as `depth`."""
        ...

    def gates(self, library: KernelLibrary) -> Iterator[GateRow]:
        """The gates of correctness in their order; made one by one, so that nobody pays for those after a failure."""
        ...

    def library_gates(self, library: KernelLibrary) -> Iterator[GateRow]:
        """Whether ggml's own kernel has the reference's bits on the same cases; nothing where it need not."""
        ...

    def sizes(self) -> Sequence[tuple[int, Turns]]:
        """Sizes that are timed, and how."""
        ...

    def bout(self, library: KernelLibrary, size: int) -> Bout:
        """Baseline, candidate, then whatever of ggml there is."""
        ...
