"""LlamaBatch: the one llama_batch of a context, filled through array views.

rows     (seq 0, start 17, [a])   (seq 2, start 0, [b c d])
tokens    a | b c d
positions 17 | 0 1 2
sequence  0 | 2 2 2      llama.cpp wants a pointer for each token; all point into this one array
logits    1 | 0 0 1
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from arriero.backend.library import Library
from arriero.core.ids import TokenId
from arriero.core.plan import Row


class Filled(NamedTuple):
    """How much of the batch is used now."""

    num_rows: int
    num_logit_rows: int


class LlamaBatch:
    """The arrays are ours, and stay where they are; llama.cpp reads them during a decode call only."""

    def __init__(self, library: Library, num_rows: int) -> None:
        """Allocate room for `num_rows` tokens."""
        self._num_rows = num_rows
        self._tokens = np.zeros(num_rows, np.int32)
        self._positions = np.zeros(num_rows, np.int32)
        self._sequences = np.zeros(num_rows, np.int32)
        self._wants_logits = np.zeros(num_rows, np.int8)
        self._counts = np.ones(num_rows, np.int32)  # each token belongs to one sequence
        first = self._sequences.ctypes.data
        self._pointers = first + self._sequences.itemsize * np.arange(num_rows, dtype=np.uintp)
        self.struct: Any = _struct_over(
            library.structs.llama_batch,
            token=self._tokens,
            pos=self._positions,
            n_seq_id=self._counts,
            seq_id=self._pointers,
            logits=self._wants_logits,
        )

    def fill(self, rows: Sequence[Row]) -> Filled:
        """Put rows in, in their order; rows without tokens are skipped. More than there is room for: ValueError."""
        tokens: list[TokenId] = []
        positions: list[int] = []
        sequences: list[int] = []
        logit_places: list[int] = []
        for row in rows:
            num = row.num_rows
            if num == 0:
                continue
            tokens.extend(row.tokens)
            positions.extend(range(row.start, row.start + num))
            sequences.extend([row.sequence_id] * num)
            if row.wants_logits:
                logit_places.append(len(tokens) - 1)
        total = len(tokens)
        if total > self._num_rows:
            message = f"{total} rows for a batch of {self._num_rows}"
            raise ValueError(message)
        self._tokens[:total] = tokens
        self._positions[:total] = positions
        self._sequences[:total] = sequences
        self._wants_logits[:total] = 0
        self._wants_logits[logit_places] = 1
        self.struct.n_tokens = total
        return Filled(total, len(logit_places))

    def fill_abreast(self, token: TokenId, position: int, num_sequences: int) -> None:
        """Put the same token at the same position of the first sequences, each with its logits."""
        self._tokens[:num_sequences] = token
        self._positions[:num_sequences] = position
        self._sequences[:num_sequences] = np.arange(num_sequences)
        self._wants_logits[:num_sequences] = 1
        self.struct.n_tokens = num_sequences


def _struct_over(kind: Any, **arrays: Any) -> Any:  # noqa: ANN401 - ctypes structures have no static types
    """A structure whose pointer fields lead into arrays; the arrays must outlive it."""
    struct = kind()
    types = dict(kind._fields_)
    for name, array in arrays.items():
        setattr(struct, name, ctypes.cast(array.ctypes.data, types[name]))
    return struct
