"""HostStore: saved runs in host memory, and in a directory if there is one.

    keep      engine's thread: bytes into memory ─▶ an order for the writer's thread ─▶ file
    load      engine's thread: bytes from memory, or the file mapped and checked
    make_room engine's thread: bytes whose file is there leave memory, the longest unused first

What a preempted request has computed comes without tokens: nobody finds it by them, so it gets no file, and its bytes
stay in memory until it is forgotten.

Reading a file back is the one thing that the engine's thread does with a disk: a mapped file of 900 tokens of a small
model costs some milliseconds, which stand against the hundreds that computing them would take.

Bytes in memory are checked by the sum of their 64-bit words, which sees a buffer that somebody wrote into and costs a
hundredth of what loading them does; bytes from a file by the crc32 that lies beside them.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from arriero.backend.run_files import FoundRun, RunFileError, read_payload, run_name
from arriero.backend.run_folder import RunFolder
from arriero.backend.run_writer import RunWriter, WriteOrder
from arriero.backend.sequence_state import Bytes
from arriero.backend.state_buffers import StateBuffers
from arriero.core.events import SavedRun, SaveSequence
from arriero.core.ids import SavedKey

LOGGER: Final = logging.getLogger("arriero.host_store")
WORD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStoreOptions:
    """How much is kept, and where.

    Attributes:
        max_bytes: of saved runs in host memory; one that is larger is never kept. Their buffers may be an eighth
            larger, and up to an eighth of it may lie idle.
        directory: where runs survive the process; None for nowhere.
        exact: whether the server runs in exact mode; what another mode has computed is not mixed with it.
        max_pending: runs that may wait to be written; more are kept in memory only.
    """

    max_bytes: int
    directory: Path | None = None
    exact: bool = False
    max_pending: int = 64


@dataclass(slots=True)
class HostStoreCounts:
    """Counted since the start; written by the engine's thread."""

    saved: int = 0
    no_room: int = 0  # not saved
    loaded: int = 0  # from memory
    loaded_from_disk: int = 0
    damaged: int = 0  # not loaded, and forgotten
    forgotten: int = 0
    not_written: int = 0  # in memory only, since too many files waited


@dataclass(slots=True)
class _Run:
    """One saved run; `file` is set by the writer's thread."""

    size: int
    payload: Bytes | None
    word_sum: int
    path: Path | None  # where its file is, or will be
    file: FoundRun | None = None
    is_forgotten: bool = False


class HostStore:
    """Belongs to the thread of its backend; the order of its runs is that of their last use."""

    def __init__(self, max_bytes: int, *, folder: RunFolder | None = None, max_pending: int = 64) -> None:
        """Take over a folder, which is closed with the store."""
        self._max_bytes = max_bytes
        self._folder = folder
        self._writer = RunWriter(max_pending) if folder is not None else None
        self._runs: dict[SavedKey, _Run] = {}
        self._num_bytes = 0
        self._buffers = StateBuffers(max_bytes // 8)
        self.counts = HostStoreCounts()

    @property
    def num_bytes(self) -> int:
        """Of host memory in use."""
        return self._num_bytes

    @property
    def num_runs(self) -> int:
        """Saved runs, in memory or on disk."""
        return len(self._runs)

    def adopt(self, found: Iterable[FoundRun]) -> tuple[SavedRun, ...]:
        """Take runs of the folder for saved, with keys from 1 on; their bytes stay on disk."""
        adopted: list[SavedRun] = []
        for number, run in enumerate(found, start=1):
            key = SavedKey(number)
            self._runs[key] = _Run(run.head.payload_bytes, None, 0, run.path, run)
            adopted.append(SavedRun(key, run.head.scope, run.tokens))
        return tuple(adopted)

    def make_room(self, size: int) -> bool:
        """Free memory for so many bytes, as far as nothing is lost by it; whether there is room."""
        if size > self._max_bytes:
            self.counts.no_room += 1
            return False
        for run in self._runs.values():
            if self._num_bytes + size <= self._max_bytes:
                break
            if run.payload is not None and run.file is not None:
                run.payload = None
                self._num_bytes -= run.size
        has_room = self._num_bytes + size <= self._max_bytes
        self.counts.no_room += not has_room
        return has_room

    def buffer(self, size: int) -> Bytes:
        """Bytes of this size to fill, for `keep` or to be given back."""
        return self._buffers.take(size)

    def give_back(self, payload: Bytes) -> None:
        """Bytes of `buffer` that were not kept."""
        self._buffers.give_back(payload)

    def keep(self, op: SaveSequence, payload: Bytes) -> bool:
        """Keep bytes under the key of `op`; they belong to the store from now on. False: the key is in use."""
        if op.key in self._runs:
            return False
        run = _Run(payload.nbytes, payload, _word_sum(payload), None)
        self._runs[op.key] = run
        self._num_bytes += run.size
        self.counts.saved += 1
        if self._folder is not None and op.tokens:
            self._order_file(self._folder, run, op, payload)
        return True

    def load(self, key: SavedKey) -> Bytes | None:
        """The bytes of a saved run, checked; None if they are gone or damaged, and then they are forgotten."""
        run = self._runs.get(key)
        if run is None:
            return None
        self._runs[key] = self._runs.pop(key)
        if run.payload is None:
            return self._load_file(key, run)
        if _word_sum(run.payload) != run.word_sum:
            LOGGER.error("saved run %d was written into and is forgotten", key)
            self._lose(key)
            return None
        self.counts.loaded += 1
        return run.payload

    def forget(self, key: SavedKey) -> None:
        """Give up a saved run and its file; an unknown key changes nothing."""
        run = self._runs.pop(key, None)
        if run is None:
            return
        run.is_forgotten = True
        self.counts.forgotten += 1
        if run.payload is not None:
            self._num_bytes -= run.size
            if run.path is None or run.file is not None:  # else the writer may still read them
                self._buffers.give_back(run.payload)
                run.payload = None
        is_shared = any(other.path == run.path for other in self._runs.values())
        if self._writer is not None and run.path is not None and not is_shared:
            self._writer.remove(run.path)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until every file is written; False if that took too long. From any thread."""
        return self._writer is None or self._writer.flush(timeout_s)

    def close(self) -> None:
        """Write what waits to be written, and let go of the folder."""
        if self._writer is not None:
            self._writer.close()
        if self._folder is not None:
            self._folder.close()

    def _order_file(self, folder: RunFolder, run: _Run, op: SaveSequence, payload: Bytes) -> None:
        """Have a run written; the order holds the bytes until then."""
        path = folder.path / run_name(op.scope, op.tokens)

        def done(found: FoundRun) -> None:
            run.file = found

        order = WriteOrder(
            path=path,
            fingerprint=folder.fingerprint.digest,
            scope=op.scope,
            tokens=op.tokens,
            payload=payload,
            done=done,
            is_wanted=lambda: not run.is_forgotten,
        )
        assert self._writer is not None, "a folder has a writer"
        if self._writer.write(order):
            run.path = path
        else:
            self.counts.not_written += 1

    def _load_file(self, key: SavedKey, run: _Run) -> Bytes | None:
        assert run.file is not None, "bytes leave memory only when their file is there"
        try:
            payload = read_payload(run.file)
        except (RunFileError, OSError) as problem:
            LOGGER.warning("%s is ignored: %s", run.file.path, problem)
            self._lose(key)
            return None
        self.counts.loaded_from_disk += 1
        return payload

    def _lose(self, key: SavedKey) -> None:
        self.counts.damaged += 1
        self.forget(key)


def _word_sum(payload: Bytes) -> int:
    """The sum of all whole 64-bit words, modulo 2**64, and of the bytes behind them."""
    whole = payload.nbytes - payload.nbytes % WORD
    return int(payload[:whole].view(np.uint64).sum(dtype=np.uint64)) + int(payload[whole:].sum(dtype=np.uint64))
