"""SyntheticBackend: no model; tokens and delays come from a formula.

It keeps real books of its KV memory, and each next token is a hash of everything that the sequence holds. So a
scheduler that trims too much, mixes two sequences up or forgets a chunk changes the answer, as with a real model, and
chunking, company and preemption do not.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import BackendLimits, DecodeError, DecodeInterrupted, KvExhausted, TokenSampler
from arriero.backend.synthetic_sampler import SyntheticSampler
from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import DropSequence, KvOp, TrimSequence
from arriero.core.ids import SequenceId, TokenId
from arriero.core.plan import Row
from arriero.core.request import Request

FNV_OFFSET: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3
MASK: Final = 2**64 - 1
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


class SyntheticMemory:
    """KV memory without the vectors: for each position of a sequence, a hash of all tokens up to it."""

    def __init__(self, limits: BackendLimits) -> None:
        """Start empty."""
        self._limits = limits
        self._hashes: list[list[int]] = [[] for _ in range(limits.num_sequences)]

    def apply(self, op: KvOp) -> bool:
        """Never refuses."""
        match op:
            case DropSequence(sequence_id):
                self._of(sequence_id).clear()
            case TrimSequence(sequence_id, length):
                del self._of(sequence_id)[length:]
            case _:
                assert_never(op)
        return True

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """From 0 to the last one held, or None."""
        held = len(self._of(sequence_id))
        return (0, held - 1) if held else None

    def store(self, rows: Sequence[Row]) -> list[int]:
        """Put rows in; returns the hash at the end of each row that wants logits.

        Raises:
            InvariantViolation: more rows than a batch holds.
            DecodeError: a token outside the vocabulary, or a position that is not the next one; nothing changed.
            KvExhausted: no place; nothing changed.
        """
        self._check(rows)
        found: list[int] = []
        for row in rows:
            hashes = self._of(row.sequence_id)
            last = hashes[-1] if hashes else FNV_OFFSET
            for token in row.tokens:
                last = ((last ^ token) * FNV_PRIME) & MASK
                hashes.append(last)
            if row.wants_logits and row.num_rows:
                found.append(last)
        return found

    def _check(self, rows: Sequence[Row]) -> None:
        limits = self._limits
        if sum(row.num_rows for row in rows) > limits.num_rows:
            message = f"more rows than the {limits.num_rows} of a batch"
            raise InvariantViolation(message)
        for row in rows:
            held = len(self._of(row.sequence_id))
            if row.num_rows and row.start != held:
                message = f"sequence {row.sequence_id} holds {held} positions, the row begins at {row.start}"
                raise DecodeError(message, code="decode_failed")
            if any(not 0 <= token < limits.vocab_size for token in row.tokens):
                message = f"a token of sequence {row.sequence_id} is not in the vocabulary"
                raise DecodeError(message, code="decode_failed")
        fullest = max((row.start + row.num_rows for row in rows if row.num_rows), default=0)
        in_all = sum(map(len, self._hashes)) + sum(row.num_rows for row in rows)
        if fullest > limits.sequence_limit or in_all > limits.num_cells:
            raise KvExhausted("no place for the rows", code="kv_exhausted")

    def _of(self, sequence_id: SequenceId) -> list[int]:
        if not 0 <= sequence_id < self._limits.num_sequences:
            message = f"sequence id {sequence_id} is none of the {self._limits.num_sequences} of this context"
            raise InvariantViolation(message)
        return self._hashes[sequence_id]


DEFAULT: Final = SyntheticOptions()


class SyntheticBackend:
    """A `Backend` that needs no model; see `SyntheticOptions` for what it pretends to be."""

    def __init__(self, options: SyntheticOptions = DEFAULT, *, pause: Pause = threading.Event.wait) -> None:
        """Start empty; `pause` lets a test have its delays without waiting.

        Raises:
            ConfigError: the options cannot work together.
        """
        self._options = options
        self._limits = options.limits()
        self._memory = SyntheticMemory(self._limits)
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

    def apply(self, op: KvOp) -> bool:
        """Change the books; never refuses."""
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

    def interrupt(self) -> None:
        """End the pause of a running decode call; from any thread."""
        self._interrupted.set()

    def close(self) -> None:
        """Nothing is held."""


def best_of(value: int, num_choices: int) -> int:
    """Which choice a hash stands for; its low bits alone would repeat after a few tokens."""
    return (value ^ value >> 32) % num_choices
