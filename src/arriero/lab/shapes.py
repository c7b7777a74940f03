"""Shapes: the steps that a calibration measures, chosen so that every term of a pass can be told from the others.

    decode      1, 2, 3, 4, 6, 8 ... sequences, at three depths
    prefill     chunks around every place where a kernel changes: 16, 4 and 1 rows, a tile, the micro-batch
    mixed       decode rows and a chunk, whose first row goes with them
    edges       contexts just below and above a multiple of the cells that are looked at together
    holes       ids that do not follow one another, where each break is a pass (separate layout)

Others, with numbers in between, are measured too and kept out of the fit: their errors are errors of prediction.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from arriero.backend.protocol import BackendLimits
from arriero.core.errors import ConfigError
from arriero.costmodel.passes import CELL_PAD, Stretch

BURST: Final = 3
"""Equal decode steps in a row: the first builds a graph, those after it find it."""
NEAR: Final = 16
_LEAST_DEPTH: Final = 64

_COUNTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_SIZES: Final = (2, 3, 4, 5, 7, 8, 12, 15, 16, 20, 24, 31, 32, 48, 63, 64, 65, 96, 128, 192, 256, 512, 1024, 2048)
_DEEP_SIZES: Final = (4, 64, 128, 256)
_MIXED_SIZES: Final = (9, 33, 65, 129)
_HELD_COUNTS: Final = (5, 7, 10, 20, 40, 80, 160)
_HELD_SIZES: Final = (10, 27, 40, 80, 100, 160, 300, 700)
_HELD_MIXED: Final = (17, 50, 101, 200)


class Probe(NamedTuple):
    """One shape of a step.

    Attributes:
        name: in words.
        rows: ascending by sequence id.
        is_held_out: measured to judge the fit, not to make it.
        repeats: equal steps in a row, each a position further.
        others: sequences without rows that hold so many positions, for the unified layout.
    """

    name: str
    rows: tuple[Stretch, ...]
    is_held_out: bool = False
    repeats: int = 1
    others: tuple[tuple[int, int], ...] = ()


class _Depth(NamedTuple):
    """How deep sequences are filled, as a part of what they can hold."""

    name: str
    part: float


_NEAR: Final = _Depth("near", 0.0)
_MIDDLE: Final = _Depth("middle", 0.35)
_DEEP: Final = _Depth("deep", 1.0)
_BETWEEN: Final = _Depth("between", 0.6)


class Design:
    """Shapes for one context; the same for every number of threads."""

    def __init__(self, limits: BackendLimits) -> None:
        """Look what the context can hold.

        Raises:
            ConfigError: too little for shapes that could be told apart.
        """
        share = limits.num_cells // limits.num_sequences if limits.unified else limits.sequence_limit
        self._limits = limits
        self.depth = min(share, limits.sequence_limit)
        self._most = min(limits.micro_batch, limits.num_rows)
        if self.depth < _LEAST_DEPTH:
            message = (
                f"--ctx-size: a sequence can hold {self.depth} tokens, and a calibration needs {_LEAST_DEPTH} for each "
                f"of {limits.num_sequences}; raise --ctx-size or lower --sequences"
            )
            raise ConfigError(message)

    def probes(self) -> tuple[Probe, ...]:
        """All of them, those that are held out last; no name comes twice."""
        fitted = [*self._decodes(), *self._prefills(), *self._mixed(), *self._edges(), *self._holes(), *self._crowded()]
        found = [*fitted, *(probe._replace(is_held_out=True) for probe in self._held_out())]
        return tuple({probe.name: probe for probe in found}.values())

    def _decodes(self) -> Iterator[Probe]:
        most = self._limits.num_sequences
        counts = sorted({most, *(count for count in _COUNTS if count <= most)})
        for count in counts:
            yield self._decode(count, _NEAR)
            yield self._decode(count, _MIDDLE)
        for count in {counts[0], counts[len(counts) // 2], counts[-1]}:
            yield self._decode(count, _DEEP)

    def _prefills(self) -> Iterator[Probe]:
        for size in self._sizes(_SIZES):
            yield self._chunks((size,), _NEAR)
        for size in self._sizes((16, *_DEEP_SIZES)):
            yield self._chunks((size,), _MIDDLE)
        for size in self._sizes(_DEEP_SIZES):
            yield self._chunks((size,), _DEEP)
        for size in self._sizes((4, 32, 128)):
            yield self._chunks((size,), _NEAR, wants_logits=True)
        for size in self._sizes((8, 32, 64)):
            if self._limits.num_sequences > 1 and 2 * size <= self._most:
                yield self._chunks((size, size), _NEAR)

    def _mixed(self) -> Iterator[Probe]:
        most = self._limits.num_sequences - 1
        for count in sorted({1, max(1, most // 2), most}) if most else ():
            for number, size in enumerate(_MIXED_SIZES):
                yield from self._mix(count, size, (_NEAR, _MIDDLE)[number % 2])

    def _edges(self) -> Iterator[Probe]:
        edge = next((pads * CELL_PAD for pads in (3, 2, 1) if pads * CELL_PAD + 2 * NEAR < self.depth), None)
        if edge is None:
            return
        for size in (1, 8, 32) if self._most >= 2 * NEAR else (1,):
            for words, start in (("up to", edge - size), ("from", edge)):
                if start + size < self.depth:
                    row = Stretch(0, start, size, wants_logits=size == 1)
                    yield Probe(f"{'decode' if size == 1 else 'prefill'} {size}, {words} {edge}", (row,))

    def _holes(self) -> Iterator[Probe]:
        if self._limits.unified:
            return
        for every in (2, 4):
            ids = tuple(range(0, self._limits.num_sequences, every))[:8]
            if len(ids) > 1:
                rows = tuple(Stretch(each, self._start(1, _NEAR), 1, wants_logits=True) for each in ids)
                yield Probe(f"decode {len(ids)} of every {every}th, near", rows, repeats=BURST)

    def _crowded(self) -> Iterator[Probe]:
        """Few rows beside full sequences, whose cells they look at in one pool."""
        if not self._limits.unified or self._limits.num_sequences < 2:
            return
        full = self._start(1, _DEEP)
        others = tuple((number, full) for number in range(1, self._limits.num_sequences))
        for probe in (self._decode(1, _NEAR), *(self._chunks((size,), _NEAR) for size in self._sizes((16, 64)))):
            yield probe._replace(name=f"{probe.name}, crowded", others=others)

    def _held_out(self) -> Iterator[Probe]:
        most_sequences = self._limits.num_sequences
        for count in [count for count in _HELD_COUNTS if count <= most_sequences] or [most_sequences]:
            yield self._decode(count, _BETWEEN)
        for number, size in enumerate(self._sizes(_HELD_SIZES)):
            yield self._chunks((size,), (_NEAR, _BETWEEN)[number % 2])
        most = most_sequences - 1
        for number, size in enumerate(_HELD_MIXED if most else ()):
            yield from self._mix(1 + (number * 3 + 1) % most, size, (_BETWEEN, _NEAR)[number % 2])

    def _decode(self, count: int, depth: _Depth) -> Probe:
        start = self._start(1, depth)
        rows = tuple(Stretch(number, start, 1, wants_logits=True) for number in range(count))
        return Probe(f"decode {count}, {depth.name}", rows, repeats=BURST)

    def _chunks(self, sizes: Sequence[int], depth: _Depth, *, wants_logits: bool = False) -> Probe:
        rows = tuple(Stretch(number, self._start(size, depth), size, wants_logits) for number, size in enumerate(sizes))
        words = " + ".join(map(str, sizes)) + (" to the end" if wants_logits else "")
        return Probe(f"prefill {words}, {depth.name}", rows)

    def _mix(self, count: int, size: int, depth: _Depth) -> Iterator[Probe]:
        fits = size + 1 < self.depth and count + size <= min(self._limits.num_rows, self._most)
        if not fits:
            return
        rows = [Stretch(number, self._start(1, depth), 1, wants_logits=True) for number in range(count)]
        rows.append(Stretch(count, self._start(size, _NEAR), size, wants_logits=False))
        yield Probe(f"decode {count} + prefill {size}, {depth.name}", tuple(rows))

    def _start(self, num_rows: int, depth: _Depth) -> int:
        """Where rows begin so that a burst of them still fits."""
        last = self.depth - num_rows - BURST
        if depth is _NEAR:
            return 0 if num_rows > 1 else min(NEAR, last)
        return max(0, int(last * depth.part))

    def _sizes(self, wanted: Sequence[int]) -> list[int]:
        most = min(self._most, self.depth - BURST)
        return [size for size in wanted if size <= most]
