"""The Q8_0 x Q8_0 tile of 4 by 2: two activation scales converted one by one, or both at once."""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from arriero.backend.ggml_kernels import F32, Q8_0, GgmlKernels, MatrixParameters
from arriero.lab.kernels.blocks import Operands, adversarial_tiles, random_tiles, scale_pairs
from arriero.lab.kernels.experiment import SEED, Amounts, Bout, Seats
from arriero.lab.kernels.gates import bits_gate, error_gate
from arriero.lab.kernels.library import KernelLibrary
from arriero.lab.kernels.reference import Reference, Single, half_to_single, rounding_bound, tile_reference
from arriero.lab.kernels.timing import Contestant, Turns
from arriero.record.cpu_lab.kernels import GateRow

DEPTHS: Final[Mapping[int, int]] = MappingProxyType({28: 60_000, 152: 16_000, 18: 60_000, 48: 40_000})
"""Blocks in a row -> calls in a repetition.

28 and 152 are those of the published study's model (896 and 4,864 values a row), 18 and 48 those of SmolLM2-135M
(576 and 1,536).
"""

BASELINE: Final = "q8_tile_baseline"
CANDIDATE: Final = "q8_tile_packed"
RULE: Final = "(depth + 4) roundings of the absolute terms"


class _Cases(NamedTuple):
    operands: Operands
    reference: Reference


class TileExperiment:
    """See the module; an `Experiment`."""

    name: str = "q8-tile"
    says: str = "converts the two activation scales of a block at once"
    symbols: tuple[str, str] = (BASELINE, CANDIDATE)
    unit: str = "depth"

    def __init__(self, amounts: Amounts, ggml: GgmlKernels | None, turns: Mapping[int, Turns]) -> None:
        """`turns` are by depth; random cases are the same in every process."""
        self._amounts = amounts
        self._ggml = ggml
        self._turns = dict(turns)
        self._cases: dict[int, _Cases] = {}

    def gates(self, library: KernelLibrary) -> Iterator[GateRow]:
        """Scales alone, then tiles at every depth: baseline and candidate, reference, error."""
        pairs = scale_pairs(np.random.default_rng(SEED), self._amounts.pairs)
        expected = np.repeat(half_to_single(pairs)[..., None], 4, axis=-1)
        for form, symbol in (("baseline", "q8_scales_baseline"), ("candidate", "q8_scales_packed")):
            found = library.scales(symbol, pairs)
            yield bits_gate(f"scales, {form}", found, expected, f"{len(pairs):,} pairs against the format's values")
        for depth in self._turns:
            operands, reference = self._case(depth)
            baseline, candidate = (library.tiles(symbol, operands) for symbol in self.symbols)
            what = f"{len(candidate):,} tiles of depth {depth}"
            yield bits_gate(f"reference, baseline, depth {depth}", baseline, reference.single, what)
            yield bits_gate(f"bits of the baseline, depth {depth}", candidate, baseline, what)
            yield bits_gate(f"reference, depth {depth}", candidate, reference.single, what)
            bound = rounding_bound(reference.magnitude, depth + 4)
            yield error_gate(f"error, depth {depth}", candidate, reference.double, bound, RULE)

    def library_gates(self, library: KernelLibrary) -> Iterator[GateRow]:
        """The matrix kernel of ggml on every tile: it has the same order of operations, edited or not."""
        for depth in self._turns:
            operands, reference = self._case(depth)
            out: Single = np.zeros_like(reference.single)
            seats = (
                Seats(library, Operands(*(each[at : at + 1] for each in operands)), (2, 4)) for at in range(len(out))
            )
            for row, seat in zip(out, seats, strict=True):
                found = self._matrix(seat)
                if found is None:
                    return
                row[:] = found.out
            yield bits_gate(f"ggml's matrix kernel, depth {depth}", out, reference.single, f"{len(out):,} tiles")

    def sizes(self) -> Sequence[tuple[int, Turns]]:
        """Every depth that the gates have seen."""
        return tuple(self._turns.items())

    def bout(self, library: KernelLibrary, size: int) -> Bout:
        """On one random tile with scales as models have them: the first of the cases."""
        operands = random_tiles(np.random.default_rng(SEED), 2, size)
        first = Operands(operands.weights[:1], operands.activations[:1])
        seats = Seats(library, first, (2, 4))
        contestants = [
            seats.taken("baseline", "baseline", "time_tile", library.address(BASELINE)),
            seats.taken("candidate", "candidate", "time_tile", library.address(CANDIDATE)),
            *self._beside(seats),
        ]
        return Bout(contestants, tile_reference(first).magnitude)

    def _case(self, depth: int) -> _Cases:
        """Made once: the reference takes longer than all compilers' kernels together."""
        if depth not in self._cases:
            extreme = adversarial_tiles(depth)
            random = random_tiles(np.random.default_rng([SEED, depth]), self._amounts.cases, depth)
            both = zip(extreme, random, strict=True)
            operands = Operands(*(np.concatenate(pair) for pair in both))
            self._cases[depth] = _Cases(operands, tile_reference(operands))
        return self._cases[depth]

    def _beside(self, seats: Seats) -> Iterator[Contestant]:
        if self._ggml is None:
            return
        yield seats.taken("ggml: 8 x vec_dot", "ggml", "time_ggml_dots", self._ggml.q8_dot)
        matrix = self._matrix(seats)
        if matrix is not None:
            yield matrix

    def _matrix(self, seats: Seats) -> Contestant | None:
        """Ggml's matrix kernel, run once; None if there is none, or if it does not take such a tile."""
        if self._ggml is None or self._ggml.matrix is None:
            return None
        parameters = MatrixParameters(ith=0, nth=1)
        extra = (ctypes.byref(parameters), ctypes.c_int(Q8_0), ctypes.c_int(F32))
        found = seats.taken("ggml: matrix kernel", "ggml", "time_ggml_tile", self._ggml.matrix, *extra)
        return found if found.run(1) else None
