"""Tiles: how much of fused attention is computed in vain, where threads share its rows out and cut tiles in two.

llama.cpp computes fused attention of many rows in tiles of 64 rows of one head. Its threads share out the rows of all
heads and streams, one after the other, in four chunks for each thread, and know nothing of tiles: a chunk that begins
or ends inside a tile computes the whole of it.

    9 heads of 64 rows, 2 threads, 8 chunks of 72 rows, 16 tiles computed, 9 needed:

    heads    |  0   |  1   |  2   |  3  ...
    chunks   |   0   |   1   |   2   |  ...

One thread cuts nothing. Source: `ggml_compute_forward_flash_attn_ext_f16` in ggml's CPU backend.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from arriero.costmodel.passes import TILE_ROWS

CHUNKS_PER_THREAD: Final = 4


class Tiles(NamedTuple):
    """Who computes the tiles.

    Attributes:
        heads: of attention; 0 where it is not fused, or where they are not known: then nothing is computed in vain.
        threads: that share the rows out.
    """

    heads: int = 0
    threads: int = 1

    def waste(self, length: int, streams: int) -> float:
        """Tiles that are computed / tiles that are needed, for `streams` streams of `length` rows each."""
        return 1.0 if self.heads == 0 else _waste(length, self.heads * streams, self.threads)


UNCUT: Final = Tiles()


def tiles_of(heads: int, threads: int) -> Tiles:
    """Those of so many heads on so many threads; `UNCUT` where no heads are known."""
    return Tiles(heads, threads) if heads else UNCUT


@lru_cache(maxsize=4096)
def _waste(length: int, groups: int, threads: int) -> float:
    """For so many groups of rows that lie one after the other. Cost: O(groups + threads), once for each."""
    num_rows = length * groups
    chunks = threads
    if threads > 1:
        chunk = -(-num_rows // (CHUNKS_PER_THREAD * threads))
        chunks = max(threads, -(-num_rows // chunk))
    chunk = -(-num_rows // chunks)
    edges = sorted({*range(0, num_rows, chunk), *range(0, num_rows, length), num_rows})
    computed = sum(_tiles(end - begin) for begin, end in pairwise(edges))
    return computed / (groups * _tiles(length))


def _tiles(num_rows: int) -> int:
    return -(-num_rows // TILE_ROWS)
