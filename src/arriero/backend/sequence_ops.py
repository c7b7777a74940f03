"""SequenceOps: every `KvOp` on one context.

A target that is to be filled must be empty, and is empty again if filling it did not work. The source of a copy, and
of a save, is never changed.
"""

from collections.abc import Callable
from typing import assert_never

from arriero.backend.copy_methods import CopyMethod
from arriero.backend.host_store import HostStore
from arriero.backend.sequence_memory import SequenceMemory
from arriero.backend.sequence_state import SequenceState, fitted
from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import SequenceId


class SequenceOps:
    """Does what a `KvOp` says, looks whether it was done, and tells the copy method of every other change."""

    def __init__(
        self, memory: SequenceMemory, state: SequenceState, method: CopyMethod, store: HostStore | None
    ) -> None:
        """Without a store, whatever would be saved or restored is refused."""
        self._memory = memory
        self._state = state
        self._method = method
        self._store = store

    def apply(self, op: KvOp) -> bool:
        """Do it; False if it could not be done."""
        store = self._store
        match op:
            case DropSequence(sequence_id):
                self._method.changed(sequence_id)
                done = self._memory.drop(sequence_id)
            case TrimSequence(sequence_id, length):
                self._method.changed(sequence_id)
                done = self._memory.trim(sequence_id, length)
            case CopySequence(source, sequence_id, length):
                done = self._fill(sequence_id, length, lambda: self._copy(source, sequence_id, length))
            case MoveSequence(source, sequence_id):
                done = self._move(source, sequence_id)
            case SaveSequence():
                done = store is not None and self._save(op, store)
            case RestoreSequence(sequence_id, _, length):
                done = store is not None and self._fill(sequence_id, length, lambda: self._restore(op, store))
            case ForgetSaved(key):
                if store is not None:
                    store.forget(key)
                done = True
            case _:
                assert_never(op)
        return done

    def _fill(self, target: SequenceId, length: int, fill: Callable[[], bool]) -> bool:
        """Run `fill` on an empty target; it then holds exactly `length` positions, or nothing."""
        if self._memory.positions(target) is not None:
            return False
        self._method.changed(target)
        if fill() and self._memory.positions(target) == (0, length - 1):
            return True
        self._memory.drop(target)
        return False

    def _copy(self, source: SequenceId, target: SequenceId, length: int) -> bool:
        return 0 < length <= self._memory.length(source) and self._method.copy(source, target, length)

    def _move(self, source: SequenceId, target: SequenceId) -> bool:
        length = self._memory.length(source)
        if not self._fill(target, length, lambda: self._copy(source, target, length)):
            return False
        self._method.changed(source)
        if self._memory.drop(source):
            return True
        self._memory.drop(target)
        return False

    def _save(self, op: SaveSequence, store: HostStore) -> bool:
        if not (0 < op.length <= self._memory.length(op.sequence_id) and self._method.is_settled(op.sequence_id)):
            return False
        size = self._state.size(op.sequence_id)
        if not store.make_room(size):
            return False
        payload = store.buffer(size)
        if self._state.read(op.sequence_id, payload) and store.keep(op, payload):
            return True
        store.give_back(payload)
        return False

    def _restore(self, op: RestoreSequence, store: HostStore) -> bool:
        if op.length < 1 or not self._method.is_settled(op.sequence_id):
            return False
        payload = store.load(op.key)
        state = None if payload is None else fitted(payload, self._state.num_streams)
        if state is None or not self._state.write(op.sequence_id, state):
            return False
        return self._memory.length(op.sequence_id) >= op.length and self._memory.trim(op.sequence_id, op.length)
