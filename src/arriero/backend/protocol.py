"""Backend: run these rows in this memory.

A backend belongs to one thread at a time: the placement of the engine decides which, and hands it over between two
calls, never during one. Only `interrupt` may be called from elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from arriero.core.errors import EngineFault
from arriero.core.events import KvOp, SavedRun
from arriero.core.ids import SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.core.request import Request


class DecodeError(EngineFault):
    """A decode call failed; the memory of the batch's sequences must be repaired before the next one."""


class KvExhausted(DecodeError):
    """Memory has no place for these rows."""


class DecodeInterrupted(DecodeError):
    """`interrupt` stopped the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendLimits:
    """What a backend can take; fixed when it is built.

    Attributes:
        num_sequences: sequence ids 0 ... num_sequences - 1.
        num_rows: rows of one decode call (`n_batch`).
        micro_batch: rows that are computed together (`n_ubatch`).
        num_cells: cells in all.
        sequence_limit: positions of one sequence.
        unified: one pool of cells, or one stream for each sequence.
        vocab_size: length of a row of logits.
        tiled_heads: heads of attention, where it is fused and computes tiles of rows; else 0.
    """

    num_sequences: int
    num_rows: int
    micro_batch: int
    num_cells: int
    sequence_limit: int
    unified: bool
    vocab_size: int
    tiled_heads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseSupport:
    """Which operations this memory can do; found out when the backend is built.

    Attributes:
        trim: the tail of a sequence can be taken away.
        copy: an empty sequence can take positions of another one.
        save: there is a host store, and this memory's sequences can go there and come back.
        reason: why one of the first two is missing; empty if neither is.
        bytes_per_token: what one position takes in the host store.
    """

    trim: bool
    copy: bool
    save: bool
    reason: str = ""
    bytes_per_token: int


class TokenSampler(Protocol):
    """Chooses the next tokens of one request; it keeps that request's random state and token history."""

    def sample(self, logits: NDArray[np.float32], *, ban_end_tokens: bool) -> TokenId:
        """Choose a token and remember it.

        Args:
            logits: float32[vocab_size], one row; may be overwritten.
            ban_end_tokens: end tokens must not be chosen (`min_tokens` is not reached).
        """
        ...

    def close(self) -> None:
        """Free what it holds; called once."""
        ...


class Backend(Protocol):
    """One context: KV memory, a batch, a decode call."""

    @property
    def limits(self) -> BackendLimits:
        """What it can take."""
        ...

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """Every token that ends a generation."""
        ...

    @property
    def reuse_support(self) -> ReuseSupport:
        """Which operations its memory can do."""
        ...

    def saved_runs(self) -> tuple[SavedRun, ...]:
        """What the host store held before the first request, the oldest first, keys from 1 on."""
        ...

    def apply(self, op: KvOp) -> bool:
        """Change the KV memory; False if memory refuses, which leaves the op undone.

        A sequence that the op would have filled is empty then. One that is not empty before is no place to fill:
        the op is refused.
        """
        ...

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """Lowest and highest position in KV, or None for an empty sequence."""
        ...

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """Compute rows, at most `limits.num_rows`, ascending by sequence id; rows of length 0 are skipped.

        Returns:
            float32[num_logit_rows, vocab_size], one row for each entry that wants logits, in the order of `rows`.
            A view: valid until the next call of any method.

        Raises:
            KvExhausted: no place; DecodeInterrupted: stopped; DecodeError: anything else.
        """
        ...

    def sampler(self, request: Request) -> TokenSampler:
        """A fresh sampler for a request whose sampling is not plain greedy, or that has `min_tokens`.

        Raises:
            EngineFault: the sampler could not be built.
        """
        ...

    def set_threads(self, threads: Threads) -> None:
        """Compute with so many threads from the next decode call on.

        Called where the backend lives, between two decode calls. Whether that changes bits is for a test to say.
        """
        ...

    def interrupt(self) -> None:
        """Make a running decode call return early; from any thread. Without one it does nothing."""
        ...

    def close(self) -> None:
        """Free everything; called once, by the owning thread."""
        ...
