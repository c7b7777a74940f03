"""SyntheticBackend: no model; tokens and delays come from a formula.

It keeps real books of its KV memory, and each next token is a hash of everything that the sequence holds. So a
scheduler that trims too much, mixes two sequences up or forgets a chunk changes the answer, as with a real model, and
chunking, company and preemption do not.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import BackendLimits, DecodeInterrupted, ReuseSupport, TokenSampler
from arriero.backend.synthetic_memory import BYTES_PER_TOKEN, SyntheticMemory, SyntheticStore
from arriero.backend.synthetic_sampler import SyntheticSampler
from arriero.core.errors import ConfigError
from arriero.core.events import KvOp, SavedRun
from arriero.core.ids import SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.core.request import Request

UNSPOKEN: Final = np.float32(-30.0)  # logit of a token that is never said
SLOPE: Final = np.float32(0.5)  # between a token and the next best one

Pause = Callable[[threading.Event, float], bool]
"""Waits so many seconds, or until the event is set, and says whether it is; `threading.Event.wait` is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticOptions:
    """What the backend pretends to be.

    Attributes:
        num_cells: cells in all; without `unified` each sequence has an equal part of them.
        base_s: seconds that each decode call takes.
        per_row_s: seconds more for each row.
        end_tokens: tokens that end a generation.
        speaks: tokens that it says; None for all of the vocabulary. Put an end token among them, and answers end.
    """

    num_sequences: int = 4
    num_rows: int = 512
    micro_batch: int = 512
    num_cells: int = 4096
    unified: bool = False
    vocab_size: int = 260
    end_tokens: frozenset[TokenId] = frozenset({257})
    speaks: tuple[TokenId, ...] | None = None
    base_s: float = 0.0
    per_row_s: float = 0.0

    def limits(self) -> BackendLimits:
        """The same in the words of the protocol.

        Raises:
            ConfigError: no cell or row for each sequence, or tokens outside the vocabulary.
        """
        if not 1 <= self.num_sequences <= min(self.num_rows, self.num_cells):
            message = f"--sequences {self.num_sequences} needs that many rows (--batch) and cells (--ctx-size)"
            raise ConfigError(message)
        if any(not 0 <= token < self.vocab_size for token in (*self.end_tokens, *(self.speaks or ()))):
            message = f"end_tokens and speaks must lie within the vocabulary of {self.vocab_size} tokens"
            raise ConfigError(message)
        return BackendLimits(
            num_sequences=self.num_sequences,
            num_rows=self.num_rows,
            micro_batch=self.micro_batch,
            num_cells=self.num_cells,
            sequence_limit=self.num_cells if self.unified else self.num_cells // self.num_sequences,
            unified=self.unified,
            vocab_size=self.vocab_size,
        )


DEFAULT: Final = SyntheticOptions()


class SyntheticBackend:
    """A `Backend` that needs no model; see `SyntheticOptions` for what it pretends to be."""

    def __init__(
        self,
        options: SyntheticOptions = DEFAULT,
        *,
        pause: Pause = threading.Event.wait,
        store: SyntheticStore | None = None,
    ) -> None:
        """Start empty; `pause` lets a test have its delays without waiting. Without a store nothing can be saved.

        Raises:
            ConfigError: the options cannot work together.
        """
        self._options = options
        self._limits = options.limits()
        self._memory = SyntheticMemory(self._limits, store)
        self._saved_runs = () if store is None else store.saved_runs()
        self._reuse_support = synthetic_reuse(has_store=store is not None)
        self._speaks = np.array(options.speaks if options.speaks is not None else range(options.vocab_size), np.int64)
        self._ramp = -SLOPE * np.arange(len(self._speaks), dtype=np.float32)
        self._pause = pause
        self._interrupted = threading.Event()

    @property
    def limits(self) -> BackendLimits:
        """What the options say."""
        return self._limits

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """What the options say."""
        return self._options.end_tokens

    @property
    def reuse_support(self) -> ReuseSupport:
        """Everything, but for saving without a store."""
        return self._reuse_support

    def saved_runs(self) -> tuple[SavedRun, ...]:
        """What the store held at the start."""
        return self._saved_runs

    def apply(self, op: KvOp) -> bool:
        """Change the books."""
        return self._memory.apply(op)

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """From 0 to the last one held, or None."""
        return self._memory.positions(sequence_id)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """Compute rows; an interrupted call has stored them, as a late interrupt of llama.cpp has."""
        self._interrupted.clear()
        hashes = self._memory.store(rows)
        num_rows = sum(row.num_rows for row in rows)
        delay_s = self._options.base_s + self._options.per_row_s * num_rows
        if num_rows and delay_s > 0 and self._pause(self._interrupted, delay_s):
            raise DecodeInterrupted("the decode call was interrupted", code="interrupted")
        logits = np.full((len(hashes), self._limits.vocab_size), UNSPOKEN)
        for row, value in zip(logits, hashes, strict=True):
            row[self._speaks] = np.roll(self._ramp, best_of(value, len(self._speaks)))
        return logits

    def sampler(self, request: Request) -> TokenSampler:
        """A fresh sampler in numpy."""
        return SyntheticSampler(request, self._options.end_tokens)

    def set_threads(self, threads: Threads) -> None:
        """Nothing: a formula has none."""

    def interrupt(self) -> None:
        """End the pause of a running decode call; from any thread."""
        self._interrupted.set()

    def close(self) -> None:
        """Nothing is held."""


def synthetic_reuse(*, has_store: bool) -> ReuseSupport:
    """What a synthetic memory can do."""
    return ReuseSupport(trim=True, copy=True, save=has_store, bytes_per_token=BYTES_PER_TOKEN)


def best_of(value: int, num_choices: int) -> int:
    """Which choice a hash stands for; its low bits alone would repeat after a few tokens."""
    return (value ^ value >> 32) % num_choices
