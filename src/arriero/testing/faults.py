"""Faults: what can go wrong in a backend, one object for each kind.

`ScriptedBackend` and `FaultyBackend` ask every fault before and after a decode call, and before a KV operation.
Decode calls are counted from 0.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import DecodeError, DecodeInterrupted, KvExhausted, ReuseSupport, TokenSampler
from arriero.core.events import DropSequence, ForgetSaved, KvOp, SaveSequence, TrimSequence, harmed_sequence
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.core.request import Request


class Fault:
    """Nothing goes wrong; each kind of fault overrides one or two of these."""

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        """May raise instead of the call; memory is untouched."""

    def after_decode(self, call: int, rows: Sequence[Row]) -> None:
        """May raise instead of the call's answer; memory holds the rows and has to be repaired."""

    def refuses(self, op: KvOp) -> bool:
        """Whether memory refuses an operation, which leaves it undone."""
        del op
        return False

    def reuse_support(self, support: ReuseSupport) -> ReuseSupport:
        """What the memory says it can do, or something in its place."""
        return support

    def sampler(self, request: Request, sampler: TokenSampler) -> TokenSampler:
        """The sampler of a request, or something in its place."""
        del request
        return sampler

    def set_threads(self, threads: Threads) -> None:
        """So many compute from now on."""

    def interrupt(self) -> None:
        """The backend was interrupted, from any thread."""


class FailedRequest(Fault):
    """Every decode call that holds rows of one request fails after it has run."""

    def __init__(self, request_id: int) -> None:
        """Name the request."""
        self._request_id = RequestId(request_id)

    def after_decode(self, call: int, rows: Sequence[Row]) -> None:
        """Fail if the request is in the call."""
        if any(row.request.request_id == self._request_id and row.num_rows for row in rows):
            message = f"decode call {call} was told to fail for request {self._request_id}"
            raise DecodeError(message, code="decode_failed")


class FailedCall(Fault):
    """Decode calls of certain numbers fail after they have run, whatever they hold."""

    def __init__(self, *calls: int) -> None:
        """Name the calls."""
        self._calls = frozenset(calls)

    def after_decode(self, call: int, rows: Sequence[Row]) -> None:
        """Fail if it is one of the calls."""
        del rows
        if call in self._calls:
            message = f"decode call {call} was told to fail"
            raise DecodeError(message, code="decode_failed")


class NoPlace(Fault):
    """Decode calls of certain numbers find no place in KV memory."""

    def __init__(self, *calls: int) -> None:
        """Name the calls."""
        self._calls = frozenset(calls)

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        """Refuse if it is one of the calls."""
        del rows
        if call in self._calls:
            message = f"decode call {call} was told to find no place"
            raise KvExhausted(message, code="kv_exhausted")


class RefusedOp(Fault):
    """Memory refuses operations of one kind, on one sequence or on any."""

    def __init__(self, kind: type[KvOp], sequence_id: int | None = None, *, times: int | None = None) -> None:
        """`times` is how often; None for always. The sequence is the one that would be changed, or saved."""
        self._kind = kind
        self._sequence_id = None if sequence_id is None else SequenceId(sequence_id)
        self._left = times

    def refuses(self, op: KvOp) -> bool:
        """Refuse, as long as there are times left."""
        if not isinstance(op, self._kind) or not self._is_meant(op) or self._left == 0:
            return False
        if self._left is not None:
            self._left -= 1
        return True

    def _is_meant(self, op: KvOp) -> bool:
        subject = op.sequence_id if isinstance(op, SaveSequence) else harmed_sequence(op)
        return self._sequence_id is None or subject == self._sequence_id


class Uncuttable(Fault):
    """The memory of a model with recurrent layers: it can be dropped, and neither cut nor shared, and says so."""

    reason: Final = "the model has recurrent layers, which cannot be cut at any position"

    def refuses(self, op: KvOp) -> bool:
        """Refuse whatever is not a drop, the beginning of a sequence excepted."""
        is_drop = isinstance(op, DropSequence | ForgetSaved) or (isinstance(op, TrimSequence) and op.length == 0)
        return not is_drop

    def reuse_support(self, support: ReuseSupport) -> ReuseSupport:
        """Nothing of all that."""
        return replace(support, trim=False, copy=False, save=False, reason=self.reason)


class BlockedCall(Fault):
    """One decode call waits until it is let go, or interrupted; so a test knows that the engine is inside it.

    Attributes:
        entered: set when the call has begun.
        release: set it, and the call goes on.
    """

    def __init__(self, call: int, *, timeout_s: float = 30.0) -> None:
        """`timeout_s` ends the wait of a test that forgets to let go: the call fails then."""
        self._call = call
        self._timeout_s = timeout_s
        self._interrupted = False
        self.entered = threading.Event()
        self.release = threading.Event()

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        """Wait if it is the call."""
        del rows
        if call != self._call:
            return
        self.entered.set()
        if not self.release.wait(self._timeout_s):
            message = f"decode call {call} was never released"
            raise DecodeError(message, code="decode_failed")
        if self._interrupted:
            raise DecodeInterrupted("the decode call was interrupted", code="interrupted")

    def interrupt(self) -> None:
        """Let the waiting call go, with an interrupt; without one it does nothing."""
        if self.entered.is_set() and not self.release.is_set():
            self._interrupted = True
            self.release.set()


class FailedSampler(Fault):
    """The sampler of one request raises; give the request a sampling that is not plain greedy, or it has none."""

    def __init__(self, request_id: int, *, after: int = 0) -> None:
        """`after` is how many tokens it chooses before."""
        self._request_id = RequestId(request_id)
        self._after = after

    def sampler(self, request: Request, sampler: TokenSampler) -> TokenSampler:
        """Wrap the sampler if it is the request's."""
        return _Raising(sampler, self._after) if request.request_id == self._request_id else sampler


class _Raising:
    """A sampler that works for a while."""

    def __init__(self, inner: TokenSampler, left: int) -> None:
        self._inner = inner
        self._left = left

    def sample(self, logits: NDArray[np.float32], *, ban_end_tokens: bool) -> TokenId:
        """Choose, or raise."""
        if self._left == 0:
            raise RuntimeError("the sampler was told to fail")
        self._left -= 1
        return self._inner.sample(logits, ban_end_tokens=ban_end_tokens)

    def close(self) -> None:
        """Close the sampler inside."""
        self._inner.close()


def damage_file(path: Path, at: int = -1) -> None:
    """Turn one byte of a file over; `at` counts from its end if it is below 0."""
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def truncate_file(path: Path, num_bytes: int) -> None:
    """Cut so many bytes from the end of a file."""
    path.write_bytes(path.read_bytes()[:-num_bytes])
