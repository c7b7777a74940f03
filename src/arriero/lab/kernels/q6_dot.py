"""The Q6_K x Q8_K dot product: one integer accumulator, or two that are added at the end of a block."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from arriero.backend.ggml_kernels import GgmlKernels
from arriero.lab.kernels.blocks import Operands, adversarial_dots, random_dots
from arriero.lab.kernels.experiment import SEED, Amounts, Bout, Seats
from arriero.lab.kernels.gates import bits_gate, error_gate
from arriero.lab.kernels.library import KernelLibrary
from arriero.lab.kernels.reference import Double, dot_reference, rounding_bound
from arriero.lab.kernels.timing import Contestant, Turns
from arriero.record.cpu_lab.kernels import GateRow

CALLS: Final[Mapping[int, int]] = MappingProxyType({1: 20_000, 4: 20_000, 8: 20_000, 16: 20_000})
"""Blocks in a row -> calls in a repetition, as published."""

BASELINE: Final = "q6_dot_baseline"
CANDIDATE: Final = "q6_dot_split"
RULE: Final = "0.001 + 0.0005 x |exact|, as published"
BOUND: Final = "(blocks + 6) roundings of the absolute terms"


class DotExperiment:
    """See the module; an `Experiment`."""

    name: str = "q6-dot"
    says: str = "sums the strips of a block into two integer accumulators"
    symbols: tuple[str, str] = (BASELINE, CANDIDATE)
    unit: str = "blocks"

    def __init__(self, amounts: Amounts, ggml: GgmlKernels | None, turns: Mapping[int, Turns]) -> None:
        """`turns` are by number of blocks; random cases are the same in every process."""
        self._amounts = amounts
        self._ggml = ggml
        self._turns = dict(turns)

    def gates(self, library: KernelLibrary) -> Iterator[GateRow]:
        """Baseline and candidate, reference, error; the published bound is asked of rows as models have them."""
        for blocks in self._turns:
            usual = random_dots(np.random.default_rng([SEED, blocks]), self._amounts.cases, blocks)
            both = zip(adversarial_dots(blocks), usual, strict=True)
            operands = Operands(*(np.concatenate(pair) for pair in both))
            reference = dot_reference(operands)
            baseline, candidate = (library.dots(symbol, operands) for symbol in self.symbols)
            what = f"{len(candidate):,} rows of {blocks} blocks"
            yield bits_gate(f"reference, baseline, {blocks} blocks", baseline, reference.single, what)
            yield bits_gate(f"bits of the baseline, {blocks} blocks", candidate, baseline, what)
            yield bits_gate(f"reference, {blocks} blocks", candidate, reference.single, what)
            bound = rounding_bound(reference.magnitude, blocks + 6)
            yield error_gate(f"rounding, {blocks} blocks", candidate, reference.double, bound, BOUND)
            start = len(candidate) - self._amounts.cases
            exact = reference.double[start:]
            yield error_gate(f"error, {blocks} blocks", candidate[start:], exact, published_bound(exact), RULE)

    def library_gates(self, library: KernelLibrary) -> Iterator[GateRow]:  # noqa: ARG002 - the protocol's
        """None: ggml subtracts the offset of the quants in another place, so its last bits are its own."""
        return iter(())

    def sizes(self) -> Sequence[tuple[int, Turns]]:
        """Every number of blocks that the gates have seen."""
        return tuple(self._turns.items())

    def bout(self, library: KernelLibrary, size: int) -> Bout:
        """On one random row with scales as models have them."""
        operands = random_dots(np.random.default_rng(SEED), 1, size)
        seats = Seats(library, operands, (1,))
        contestants = [
            seats.taken("baseline", "baseline", "time_dot", library.address(BASELINE)),
            seats.taken("candidate", "candidate", "time_dot", library.address(CANDIDATE)),
            *self._beside(seats),
        ]
        return Bout(contestants, dot_reference(operands).magnitude)

    def _beside(self, seats: Seats) -> Iterator[Contestant]:
        if self._ggml is not None:
            yield seats.taken("ggml: vec_dot", "ggml", "time_ggml_dot", self._ggml.q6_dot)


def published_bound(exact: Double) -> Double:
    """How far a result may be from the exact one by the published rule."""
    bound: Double = 1e-3 + 5e-4 * np.abs(exact)
    return bound
