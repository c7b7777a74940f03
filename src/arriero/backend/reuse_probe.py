"""What a context's memory can do, found out by trying it once, with a few tokens, before the first request.

llama.cpp has memories that cannot forget a tail (recurrent layers) or that have overwritten what lies before it
(sliding windows). The first kind refuses, the second does not always: so the model's own description decides first,
and the trial second.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from arriero.backend.copy_methods import CopyMethod
from arriero.backend.decoder import Decoder
from arriero.backend.llama_model import Capabilities
from arriero.backend.protocol import BackendLimits, DecodeError, ReuseSupport
from arriero.backend.sequence_memory import SequenceMemory
from arriero.backend.sequence_state import Bytes, SequenceState, values_transposed
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import PrefillChunk
from arriero.core.request import Request

NUM_TOKENS: Final = 4
KEPT: Final = 2  # what is left of them after the trim
TOKEN: Final[TokenId] = 0  # every vocabulary has it
FIRST, SECOND = SequenceId(0), SequenceId(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What the trial showed.

    Attributes:
        trim, copy, save: what worked.
        reason: why one of the first two did not; empty if both did.
        bytes_per_token: growth of a sequence's state with each position.
        transposed: see `values_transposed`.
    """

    trim: bool = False
    copy: bool = False
    save: bool = False
    reason: str
    bytes_per_token: int = 0
    transposed: bool | None = None

    def support(self, *, has_store: bool) -> ReuseSupport:
        """The same for whoever uses the backend."""
        return ReuseSupport(
            trim=self.trim,
            copy=self.copy,
            save=self.save and has_store,
            reason=self.reason,
            bytes_per_token=self.bytes_per_token,
        )


def probe_reuse(
    decoder: Decoder,
    memory: SequenceMemory,
    state: SequenceState,
    method: CopyMethod,
    limits: BackendLimits,
    capabilities: Capabilities,
) -> Probed:
    """Compute a few tokens, trim, copy, save and restore them; memory is empty and as new afterwards."""
    if not capabilities.trims:
        return Probed(reason=f"the model has {capabilities.memory}, which cannot be cut at any position")
    try:
        for start in range(0, NUM_TOKENS, limits.num_rows):
            decoder.decode([_row(start, min(NUM_TOKENS - start, limits.num_rows))])
        return _try_all(decoder, memory, state, method, limits, capabilities)
    except DecodeError as problem:
        return Probed(reason=f"a trial of its memory failed: {problem}")
    finally:
        memory.clear()
        for sequence_id in (FIRST, SECOND):
            method.changed(sequence_id)


def _try_all(
    decoder: Decoder,
    memory: SequenceMemory,
    state: SequenceState,
    method: CopyMethod,
    limits: BackendLimits,
    capabilities: Capabilities,
) -> Probed:
    whole = state.size(FIRST)
    if not memory.trim(FIRST, KEPT) or memory.positions(FIRST) != (0, KEPT - 1):
        return Probed(reason="llama.cpp refuses to take a tail out of this memory")
    saved: Bytes = np.empty(state.size(FIRST), np.uint8)
    can_save = state.read(FIRST, saved)
    if limits.num_sequences > 1:
        can_copy = method.copy(FIRST, SECOND, KEPT) and memory.positions(SECOND) == (0, KEPT - 1)
    else:
        can_copy = True  # to nobody
    decoder.decode([_row(KEPT, 1)])  # a copy may wait for the next call
    can_save = can_save and memory.drop(FIRST) and state.write(FIRST, saved)
    return Probed(
        trim=True,
        copy=can_copy,
        save=can_save and memory.positions(FIRST) == (0, KEPT - 1),
        reason="" if can_copy else "llama.cpp does not copy sequences of this memory",
        bytes_per_token=(whole - saved.nbytes) // (NUM_TOKENS - KEPT),
        transposed=values_transposed(saved, capabilities.num_layers),
    )


def _row(start: int, num_rows: int) -> PrefillChunk:
    request = Request(request_id=RequestId(0), prompt=(TOKEN,) * NUM_TOKENS, max_tokens=1, arrival_at=0)
    return PrefillChunk(request, FIRST, start, (TOKEN,) * num_rows, wants_logits=False)
