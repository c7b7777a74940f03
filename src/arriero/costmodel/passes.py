"""Passes: into which micro-batches llama.cpp cuts the rows of one decode call, and what each has to compute.

Every micro-batch is one pass over all weights, so where the cuts fall decides what a step costs.

    unified     the rows in their order, a micro-batch at a time
    separate    an equal number of rows for each of consecutive, ascending sequence ids; the shortest one ends the pass

    ids 0 1 2 5 with 1, 1, 40 and 1 rows, separate:
                pass   ids      rows of each
                1      0 1 2    1
                2      2        39
                3      5        1

Attention has three paths in llama.cpp on a CPU, by the rows that one stream has in the pass. With flash attention the
long one computes whole tiles of rows, needed or not, and far faster: a chunk of 64 rows can take a quarter of the time
of one of 63. Counted here is what each kind of attention has to do; which of the counts costs what is for a fit to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from arriero.core.plan import Row, StepShape

TILE_ROWS: Final = 64
CELL_PAD: Final = 256


class Stretch(NamedTuple):
    """What the cost of a row, or of a chunk, depends on; no request and no tokens.

    Attributes:
        sequence_id: where it is computed.
        start: position of the first row: so many cells are in KV before.
        num_rows: rows.
        wants_logits: whether the last of them gives logits.
    """

    sequence_id: int
    start: int
    num_rows: int
    wants_logits: bool


AnyRow: TypeAlias = Row | Stretch
"""Rows of a plan, or stretches that stand for them; ascending by sequence id."""


class AttentionPath(StrEnum):
    """How attention is computed, by the rows of one stream in the pass."""

    ONE = "one"
    FEW = "few"
    MANY = "many"  # a tile of rows or more


class Pass(NamedTuple):
    """One micro-batch.

    Attributes:
        rows: of all sequences.
        path: of its attention.
        streams: KV streams that it reads; one in the unified layout.
        cells: positions of its own sequences, each once, however many rows look at it.
        keys: row x key products of fused attention: each row with every position of its own sequence up to itself, in
            whole tiles of rows for `AttentionPath.MANY`.
        scanned: rows x cells, masked ones included: what attention that is not fused computes.
        logit_rows: rows that give logits.
        builds: whether llama.cpp has to build its graph, since the pass before had another shape.
    """

    rows: int
    path: AttentionPath
    streams: int
    cells: int
    keys: int
    scanned: int
    logit_rows: int
    builds: bool

    @property
    def length(self) -> int:
        """Rows of each stream."""
        return self.rows // self.streams


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRules:
    """How a context cuts.

    Attributes:
        micro_batch: rows of one pass.
        unified: one pool of cells, or a stream for each sequence.
        stream_cells: cells of the pool, or of one stream.
        tile_rows: from so many rows on attention is computed in tiles of so many.
        cell_pad: cells are looked at in multiples of this.
        tiled_heads: heads of attention, where it is fused; 0 where it is not, or where they are not known.
    """

    micro_batch: int
    unified: bool
    stream_cells: int
    tile_rows: int = TILE_ROWS
    cell_pad: int = CELL_PAD
    tiled_heads: int = 0

    def scan(self, used: int) -> int:
        """Cells that are looked at where so many are in use."""
        padded = -(-max(used, 1) // self.cell_pad) * self.cell_pad
        return min(padded, max(self.stream_cells, used))

    def path(self, num_rows: int) -> AttentionPath:
        """Of a stream with so many rows."""
        if num_rows == 1:
            return AttentionPath.ONE
        return AttentionPath.FEW if num_rows < self.tile_rows else AttentionPath.MANY


def split(rows: Sequence[AnyRow], rules: PassRules, *, pool: int = 0, is_first: bool = False) -> list[Pass]:
    """The passes of one decode call, in their order.

    A step of single rows in one pass finds the graph of the step before; any other builds one for each pass.

    Args:
        rows: ascending by sequence id; those of length 0 are skipped.
        rules: of the context.
        pool: cells in use before the step, of whomever; counts in the unified layout only, where at least those of
            the rows' own sequences are taken.
        is_first: the step before had another shape, whatever this one is.

    Cost: O(rows), and O(passes) more.
    """
    present = [row for row in rows if row.num_rows]
    if not present:
        return []
    found = _unified(present, rules, pool) if rules.unified else _separate(present, rules)
    is_steady = len(found) == 1 and found[0].rows == len(present) and not is_first
    return [found[0]._replace(builds=False)] if is_steady else found


def stand_in(shape: StepShape) -> list[Stretch]:
    """Rows that have the counts of a shape: consecutive ids, all of one length and context, decode rows first."""
    entries = shape.decode_rows + shape.prefill_chunks
    if not entries:
        return []
    context = shape.context_tokens // entries
    found = [Stretch(number, context, 1, wants_logits=True) for number in range(shape.decode_rows)]
    for number in range(shape.prefill_chunks):
        # the remainder goes to the first ones
        size = (shape.prefill_rows + shape.prefill_chunks - 1 - number) // shape.prefill_chunks
        found.append(Stretch(shape.decode_rows + number, context, size, wants_logits=False))
    return found


_Piece: TypeAlias = tuple[int, int, bool]
"""The rows that one sequence has in a pass: start, number, whether the last gives logits.

A plain tuple, as many are made for each prediction; for the same reason sums are taken of lists, not of generators.
"""


def _separate(rows: Sequence[AnyRow], rules: PassRules) -> list[Pass]:
    found: list[Pass] = []
    left = [(row.sequence_id, row.start, row.num_rows, row.wants_logits) for row in rows]
    while left:
        size = 1
        while size < len(left) and size < rules.micro_batch and left[size][0] == left[size - 1][0] + 1:
            size += 1
        lengths = [num_rows for _, _, num_rows, _ in left[:size]]
        length = min(*lengths, max(1, rules.micro_batch // size))
        pieces = [(start, length, wants and length == num) for _, start, num, wants in left[:size]]
        found.append(_equal_pass(pieces, length, rules))
        rest = [(each, start + length, num - length, wants) for each, start, num, wants in left[:size] if num > length]
        left = rest + left[size:]
    return found


def _equal_pass(pieces: Sequence[_Piece], length: int, rules: PassRules) -> Pass:
    """Each piece in a stream of its own."""
    path = rules.path(length)
    starts = [start for start, _, _ in pieces]
    looked_at = rules.scan(max(starts) + length)
    cells = sum(starts) + length * len(pieces)
    if path is AttentionPath.MANY:
        tile, num_tiles = rules.tile_rows, -(-length // rules.tile_rows)
        # tile t reaches from `start` to the end of its own rows
        each = tile * (tile * num_tiles * (num_tiles - 1) // 2 + length)
        keys = tile * num_tiles * sum(starts) + each * len(pieces)
    else:
        keys = length * sum(starts) + len(pieces) * length * (length + 1) // 2
    rows = length * len(pieces)
    logit_rows = [gives_logits for _, _, gives_logits in pieces]
    return Pass(rows, path, len(pieces), cells, keys, rows * looked_at, sum(logit_rows), builds=True)


def _unified(rows: Sequence[AnyRow], rules: PassRules, pool: int) -> list[Pass]:
    own, more = [row.start for row in rows], [row.num_rows for row in rows]
    looked_at = rules.scan(max(pool, sum(own)) + sum(more))
    found: list[Pass] = []
    pieces: list[_Piece] = []
    room = rules.micro_batch
    for row in rows:
        at, left = row.start, row.num_rows
        while left:
            taken = min(left, room)
            left -= taken
            pieces.append((at, taken, row.wants_logits and not left))
            at, room = at + taken, room - taken
            if not room:
                found.append(_pooled_pass(pieces, looked_at, rules))
                pieces, room = [], rules.micro_batch
    if pieces:
        found.append(_pooled_pass(pieces, looked_at, rules))
    return found


def _pooled_pass(pieces: Sequence[_Piece], looked_at: int, rules: PassRules) -> Pass:
    """All pieces in one stream, where a row looks at everybody's cells."""
    numbers, ends = [number for _, number, _ in pieces], [start + number for start, number, _ in pieces]
    num_rows, cells = sum(numbers), sum(ends)
    path = rules.path(num_rows)
    if path is AttentionPath.MANY:
        keys = _tiled_keys(pieces, rules.tile_rows, looked_at)
    else:
        products = [number * start + number * (number + 1) // 2 for start, number, _ in pieces]
        keys = sum(products)
    logit_rows = [gives_logits for _, _, gives_logits in pieces]
    return Pass(num_rows, path, 1, cells, keys, num_rows * looked_at, sum(logit_rows), builds=True)


def _tiled_keys(pieces: Sequence[_Piece], tile: int, most: int) -> int:
    """Tiles of consecutive rows, each with the positions of all sequences that have a row in it."""
    total, reach, room = 0, 0, tile
    for start, number, _ in pieces:
        at, end = start, start + number
        while at < end:
            taken = min(end - at, room)
            at, room = at + taken, room - taken
            reach += at
            if not room:
                total, reach, room = total + tile * min(reach, most), 0, tile
    return total + tile * min(reach, most)
