"""WatchedContext: one sequence of one context, and hooks that see its graphs.

A prompt and its answer are computed by the same calls as in a server; nothing else is: no samplers, no store, no
interrupts.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from arriero.backend.context import ContextOptions, OpenContext, open_context
from arriero.backend.decoder import Decoder
from arriero.backend.graph_hooks import GraphHooks
from arriero.backend.interrupt import InterruptFlag
from arriero.backend.llama_model import LlamaModel
from arriero.backend.sequence_memory import SequenceMemory
from arriero.core.plan import Row


class WatchedContext:
    """Used by one thread; the model must outlive it, and so must the hooks."""

    def __init__(self, model: LlamaModel, options: ContextOptions, hooks: GraphHooks | None) -> None:
        """Allocate KV memory and buffers; without hooks a context as a server has it.

        Raises:
            ConfigError: the options cannot work together, or memory does not suffice.
        """
        flag = InterruptFlag()
        self._kept = (flag, hooks)
        self._context: OpenContext = open_context(model, options, flag, hooks)
        self._memory = SequenceMemory(self._context)
        self._decoder = Decoder(self._context, flag, waits_for_logits=False, reached=_ignore)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """Compute rows in one decode call; see `LlamaCppBackend.decode`."""
        return self._decoder.decode(rows)

    def clear(self) -> None:
        """Empty the memory, and begin again with the first cell."""
        self._memory.clear()

    def close(self) -> None:
        """Free the context; once."""
        self._context.close()


def _ignore() -> None:
    """Nothing depends on what a call has touched."""
