"""CanonicalRows: a backend whose calls always have a multiple of so many rows, for formats that count them.

Some weight formats take one kernel for a row alone (F16, BF16) or for what is left over of a group of four (Q4_K),
and another one for the rest, with other last bits. Idle rows fill every call up, so a row meets the same kernel in any
company. They are computed, ignored, and taken out of memory again before anything else happens there.

    decode, multiple 4   ids 0 . 2 . | . . . . | 8 . . .    rows of requests; `.` is an id without one in this call
                         ids 0 i 2 i |         | 8 i i i    every aligned block with a row is filled, others are not

    prefill, multiple 4  positions 40 ... 76                a chunk of 37 rows
                         positions 40 ... 76 i i i          idle rows behind its end: no row sees a later position

Holes need care because llama.cpp computes consecutive ids together and starts anew at each break; a block without
holes is computed in one piece, or together with its neighbours, which are multiples too.
An idle row wants logits as any decode row does, since the last layer is computed for those rows only.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.context import ContextOptions
from arriero.backend.host_store import HostStore, HostStoreOptions
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.protocol import Backend, BackendLimits, KvExhausted, ReuseSupport, TokenSampler
from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import KvOp, SavedRun, TrimSequence
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request

IDLE_TOKEN: Final[TokenId] = 0
IDLE: Final = Request(request_id=RequestId(-1), prompt=(), max_tokens=1, arrival_at=0)
"""Whom idle rows belong to; without a prompt, since what lies before them is anybody's."""


class CanonicalRows:
    """A `Backend` around another one, which must be its alone.

    Fills up the two kinds of calls that exact mode makes: one chunk of one prompt, or one row of each of several
    sequences. Any other call is passed on as it is.

    Attributes:
        store: where the inner one saves runs, or None.
    """

    def __init__(self, inner: Backend, *, multiple: int, num_sequences: int, store: HostStore | None = None) -> None:
        """Ids from `num_sequences` on are spare: nobody else uses them. Closing this closes the inner one.

        Raises:
            ConfigError: the inner one has too few ids, or micro-batches that are no multiple.
        """
        limits = inner.limits
        if limits.num_sequences < rounded(num_sequences, multiple) or limits.micro_batch % multiple:
            message = (
                f"rows in multiples of {multiple} need as many sequence ids, not {limits.num_sequences} for "
                f"{num_sequences} sequences, and --micro-batch as a multiple, not {limits.micro_batch}"
            )
            raise ConfigError(message)
        self.store = store
        self._inner = inner
        self._multiple = multiple
        self._limits = replace(
            limits,
            num_sequences=num_sequences,
            num_rows=limits.num_rows - limits.num_rows % multiple,
            num_cells=limits.num_cells // limits.num_sequences * num_sequences,
            sequence_limit=limits.sequence_limit - (multiple - 1),  # room for idle rows behind the last position
        )
        self._idle: list[TrimSequence] = []

    @property
    def limits(self) -> BackendLimits:
        """The inner one's, without what idle rows need."""
        return self._limits

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """The inner one's."""
        return self._inner.end_tokens

    @property
    def reuse_support(self) -> ReuseSupport:
        """The inner one's."""
        return self._inner.reuse_support

    def saved_runs(self) -> tuple[SavedRun, ...]:
        """The inner one's."""
        return self._inner.saved_runs()

    def apply(self, op: KvOp) -> bool:
        """Change the KV memory."""
        self._tidy()
        return self._inner.apply(op)

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        """Lowest and highest position of a request's own, or None."""
        self._tidy()
        return self._inner.positions(sequence_id)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """Compute rows among idle ones; the logits are those of `rows` alone.

        Raises:
            KvExhausted, DecodeError: as the inner one's; and no sequence grows beyond this one's limit.
        """
        self._tidy()
        computed = [row for row in rows if row.num_rows]
        if any(row.start + row.num_rows > self._limits.sequence_limit for row in computed):
            message = f"a sequence holds {self._limits.sequence_limit} positions, the others are for idle rows"
            raise KvExhausted(message, code="kv_exhausted")
        if len(computed) == 1 and _is_prompt(computed[0]):
            return self._inner.decode([*computed, *self._behind(computed[0])])
        if any(row.num_rows > 1 for row in computed):
            return self._inner.decode(computed)
        filled = sorted([*computed, *self._beside(computed)], key=lambda row: row.sequence_id)
        logits = self._inner.decode(filled)
        wanting = [row for row in filled if row.wants_logits]
        kept = [place for place, row in enumerate(wanting) if row.request is not IDLE]
        return logits[: len(kept)] if not kept or kept[-1] == len(kept) - 1 else logits[kept]

    def sampler(self, request: Request) -> TokenSampler:
        """The inner one's."""
        return self._inner.sampler(request)

    def set_threads(self, threads: Threads) -> None:
        """As the inner one."""
        self._inner.set_threads(threads)

    def interrupt(self) -> None:
        """Interrupt the inner call."""
        self._inner.interrupt()

    def close(self) -> None:
        """Close the inner one."""
        self._inner.close()

    def _behind(self, chunk: Row) -> list[Row]:
        """Idle rows that follow a chunk on its own sequence."""
        end = chunk.start + chunk.num_rows
        num_idle = -chunk.num_rows % self._multiple
        if not num_idle:
            return []
        self._idle.append(TrimSequence(chunk.sequence_id, end))
        return [PrefillChunk(IDLE, chunk.sequence_id, end, (IDLE_TOKEN,) * num_idle, wants_logits=False)]

    def _beside(self, rows: Sequence[Row]) -> list[Row]:
        """An idle row for each other id of the aligned blocks in which these rows lie."""
        used = {row.sequence_id for row in rows}
        blocks = sorted({sequence_id // self._multiple for sequence_id in used})
        idle: list[Row] = []
        for block in blocks:
            for number in range(block * self._multiple, (block + 1) * self._multiple):
                sequence_id = SequenceId(number)
                if sequence_id not in used:
                    span = self._inner.positions(sequence_id)
                    end = 0 if span is None else span[1] + 1
                    self._idle.append(TrimSequence(sequence_id, end))
                    idle.append(DecodeRow(IDLE, sequence_id, end, IDLE_TOKEN))
        return idle

    def _tidy(self) -> None:
        """Take the idle rows of the last call out; a call that failed may have left some, or none."""
        idle, self._idle = self._idle, []
        for op in idle:
            if not self._inner.apply(op):
                message = f"memory does not give back the idle rows of sequence {op.sequence_id}"
                raise InvariantViolation(message)


def rounded(num_sequences: int, multiple: int) -> int:
    """Sequence ids that so many sequences need, so that every block is whole."""
    return -(-num_sequences // multiple) * multiple


def open_canonical(
    model: LlamaModel, options: ContextOptions, multiple: int, store: HostStoreOptions | None = None
) -> Backend:
    """A context as the options say, with calls of a multiple of so many rows; separate streams only.

    Each sequence has the cells that it has without: spare ids get streams of their own beside them.

    Raises:
        ConfigError: the options cannot work together, or memory does not suffice.
    """
    if multiple == 1:
        return LlamaCppBackend(model, options, store)
    num_sequences = options.num_sequences
    with_spare = rounded(num_sequences, multiple)
    wider = replace(
        options,
        num_sequences=with_spare,
        ctx_size=-(-options.ctx_size // num_sequences) * with_spare,
        num_rows=rounded(options.num_rows, multiple),
        micro_batch=rounded(min(options.micro_batch, options.num_rows), multiple),
    )
    inner = LlamaCppBackend(model, wider, store)
    return CanonicalRows(inner, multiple=multiple, num_sequences=num_sequences, store=inner.store)


def _is_prompt(row: Row) -> bool:
    """Whether it is a stretch of a prompt; an answer that is computed again goes beside decode rows, row by row."""
    return isinstance(row, PrefillChunk) and row.start < len(row.request.prompt)
