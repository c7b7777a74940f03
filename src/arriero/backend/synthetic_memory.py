"""SyntheticMemory: KV memory without the vectors.

For each position it holds the token, and a hash of all tokens up to it. So it can say what a real memory cannot: that
a sequence holds what its request says. The first row of a request on a sequence that somebody else has filled is
checked against the request's prompt, and a wrong reuse raises in every test that runs on this memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from arriero.backend.protocol import BackendLimits, DecodeError, KvExhausted
from arriero.core.errors import InvariantViolation
from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SavedRun,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import SavedKey, SequenceId, TokenId
from arriero.core.plan import Row
from arriero.core.request import Request

FNV_OFFSET: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3
MASK: Final = 2**64 - 1
BYTES_PER_TOKEN: Final = 8  # what a token and its share of a hash might take


@dataclass(slots=True)
class _Cell:
    """One position; in a pool several sequences may hold one and the same cell."""

    token: TokenId
    hash: int
    num_holders: int = 1


@dataclass(slots=True)
class _Saved:
    """One saved run."""

    scope: str
    tokens: tuple[TokenId, ...]
    hashes: tuple[int, ...]
    outlives: bool  # its backend; what a preempted request has computed does not

    @property
    def is_sound(self) -> bool:
        """Whether the hashes still are those of the tokens."""
        return self.hashes == tuple(_hashes(self.tokens))


class SyntheticStore:
    """The host store of synthetic memories; hand one to the next backend, and it survives a restart."""

    def __init__(self, max_tokens: int | None = None) -> None:
        """Start empty; `max_tokens` bounds what is kept, None does not."""
        self._max_tokens = max_tokens
        self._runs: dict[SavedKey, _Saved] = {}

    @property
    def num_tokens(self) -> int:
        """Tokens of all saved runs."""
        return sum(len(run.tokens) for run in self._runs.values())

    def saved_runs(self) -> tuple[SavedRun, ...]:
        """What is kept, under new keys from 1 on; called once, by a backend that starts."""
        kept = [run for run in self._runs.values() if run.outlives]
        self._runs = {SavedKey(number): run for number, run in enumerate(kept, start=1)}
        return tuple(SavedRun(key, run.scope, run.tokens) for key, run in self._runs.items())

    def corrupt(self, key: int) -> None:
        """Change a token of a saved run, so that it cannot be restored any more."""
        run = self._runs[SavedKey(key)]
        run.tokens = (run.tokens[0] + 1, *run.tokens[1:])

    def keep(self, op: SaveSequence, tokens: tuple[TokenId, ...]) -> bool:
        """Keep a run; False if the key is in use, or for want of room."""
        has_room = self._max_tokens is None or self.num_tokens + len(tokens) <= self._max_tokens
        if op.key in self._runs or not has_room:
            return False
        self._runs[op.key] = _Saved(op.scope, tokens, tuple(_hashes(tokens)), outlives=bool(op.tokens))
        return True

    def load(self, key: SavedKey) -> tuple[TokenId, ...] | None:
        """The tokens of a saved run; None if it is gone or damaged, and then it is forgotten."""
        run = self._runs.get(key)
        if run is not None and not run.is_sound:
            self.forget(key)
            return None
        return None if run is None else run.tokens

    def forget(self, key: SavedKey) -> None:
        """Give up a run; an unknown key changes nothing."""
        self._runs.pop(key, None)


class SyntheticMemory:
    """Cells, sequences that hold them, and a store; refuses what a real memory refuses."""

    def __init__(self, limits: BackendLimits, store: SyntheticStore | None = None) -> None:
        """Start empty; without a store nothing can be saved."""
        self._limits = limits
        self._store = store
        self._cells: list[list[_Cell]] = [[] for _ in range(limits.num_sequences)]
        self._checked: list[Request | None] = [None] * limits.num_sequences  # whose content is known to be right
        self._num_used = 0

    @property
    def num_used(self) -> int:
        """Cells in use; one that several sequences hold counts once."""
        return self._num_used

    def tokens(self, sequence_id: SequenceId) -> list[TokenId]:
        """What a sequence holds, position by position."""
        return [cell.token for cell in self._of(sequence_id)]

    def apply(self, op: KvOp) -> bool:
        """Do it; False if it cannot be done, which changes nothing.

        Raises:
            InvariantViolation: the sequence to be saved does not hold the tokens that the op names.
        """
        done = True
        match op:
            case DropSequence(sequence_id):
                self._trim(sequence_id, 0)
            case TrimSequence(sequence_id, length):
                self._trim(sequence_id, length)
            case CopySequence(source, sequence_id, length):
                done = self._copy(source, sequence_id, length)
            case MoveSequence(source, sequence_id):
                done = self._copy(source, sequence_id, len(self._of(source)))
                if done:
                    self._trim(source, 0)
            case SaveSequence():
                done = self._save(op)
            case RestoreSequence(sequence_id, key, length):
                done = self._restore(sequence_id, key, length)
            case ForgetSaved(key):
                if self._store is not None:
                    self._store.forget(key)
            case _:
                assert_never(op)
        return done

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """From 0 to the last one held, or None."""
        held = len(self._of(sequence_id))
        return (0, held - 1) if held else None

    def store(self, rows: Sequence[Row]) -> list[int]:
        """Put rows in; returns the hash at the end of each row that wants logits.

        Raises:
            InvariantViolation: more rows than a batch holds, or a sequence that holds something else than its
                request's prompt.
            DecodeError: a token outside the vocabulary, or a position that is not the next one; nothing changed.
            KvExhausted: no place; nothing changed.
        """
        self._check(rows)
        found: list[int] = []
        for row in rows:
            cells = self._of(row.sequence_id)
            last = cells[-1].hash if cells else FNV_OFFSET
            for token in row.tokens:
                last = ((last ^ token) * FNV_PRIME) & MASK
                cells.append(_Cell(token, last))
            self._num_used += row.num_rows
            if row.wants_logits and row.num_rows:
                found.append(last)
        return found

    def _check(self, rows: Sequence[Row]) -> None:
        limits = self._limits
        if sum(row.num_rows for row in rows) > limits.num_rows:
            message = f"more rows than the {limits.num_rows} of a batch"
            raise InvariantViolation(message)
        ends: dict[SequenceId, int] = {}
        for row in rows:  # a sequence may have several entries in a call, each where the one before it ends
            held = ends.get(row.sequence_id, len(self._of(row.sequence_id)))
            ends[row.sequence_id] = held + row.num_rows
            if row.num_rows and row.start != held:
                message = f"sequence {row.sequence_id} holds {held} positions, the row begins at {row.start}"
                raise DecodeError(message, code="decode_failed")
            if any(not 0 <= token < limits.vocab_size for token in row.tokens):
                message = f"a token of sequence {row.sequence_id} is not in the vocabulary"
                raise DecodeError(message, code="decode_failed")
        fullest = max((row.start + row.num_rows for row in rows if row.num_rows), default=0)
        in_all = self._num_used + sum(row.num_rows for row in rows)
        if fullest > limits.sequence_limit or in_all > limits.num_cells:
            raise KvExhausted("no place for the rows", code="kv_exhausted")
        for row in rows:
            if row.num_rows and self._checked[row.sequence_id] is not row.request:
                self._check_content(row)

    def _check_content(self, row: Row) -> None:
        """What lies before the row must be the beginning of its request's prompt."""
        prompt = row.request.prompt
        length = min(row.start, len(prompt))
        held = [cell.token for cell in self._cells[row.sequence_id][:length]]
        expected = list(prompt[:length])
        if held != expected:
            at = next(i for i in range(length) if held[i] != expected[i])
            message = (
                f"sequence {row.sequence_id} holds token {held[at]} at position {at}, "
                f"where request {row.request.request_id} has {expected[at]}"
            )
            raise InvariantViolation(message)
        self._checked[row.sequence_id] = row.request

    def _trim(self, sequence_id: SequenceId, length: int) -> None:
        cells = self._of(sequence_id)
        for cell in cells[length:]:
            cell.num_holders -= 1
            self._num_used -= cell.num_holders == 0
        del cells[length:]
        self._checked[sequence_id] = None

    def _copy(self, source: SequenceId, target: SequenceId, length: int) -> bool:
        held, cells = self._of(source), self._of(target)
        if cells or not 0 < length <= len(held):
            return False
        if self._limits.unified:
            for cell in held[:length]:
                cell.num_holders += 1
            cells.extend(held[:length])
        else:
            self._put(cells, [cell.token for cell in held[:length]])
        self._checked[target] = None
        return True

    def _save(self, op: SaveSequence) -> bool:
        tokens = tuple(self.tokens(op.sequence_id))[: op.length]
        if self._store is None or not 0 < op.length == len(tokens):
            return False
        if op.tokens and op.tokens != tokens:
            message = f"sequence {op.sequence_id} is saved as {op.tokens}, and holds {tokens}"
            raise InvariantViolation(message)
        return self._store.keep(op, tokens)

    def _restore(self, target: SequenceId, key: SavedKey, length: int) -> bool:
        cells = self._of(target)
        tokens = None if self._store is None or cells else self._store.load(key)
        limits = self._limits
        room = min(limits.sequence_limit, limits.num_cells - self._num_used)
        if tokens is None or not 0 < length <= len(tokens) <= room:
            return False
        self._put(cells, tokens[:length])
        self._checked[target] = None
        return True

    def _put(self, cells: list[_Cell], tokens: Sequence[TokenId]) -> None:
        """Fill an empty sequence."""
        cells.extend(_Cell(token, value) for token, value in zip(tokens, _hashes(tokens), strict=True))
        self._num_used += len(tokens)

    def _of(self, sequence_id: SequenceId) -> list[_Cell]:
        if not 0 <= sequence_id < self._limits.num_sequences:
            message = f"sequence id {sequence_id} is none of the {self._limits.num_sequences} of this context"
            raise InvariantViolation(message)
        return self._cells[sequence_id]


def _hashes(tokens: Sequence[TokenId]) -> list[int]:
    """The hash at each position."""
    found: list[int] = []
    last = FNV_OFFSET
    for token in tokens:
        last = ((last ^ token) * FNV_PRIME) & MASK
        found.append(last)
    return found
