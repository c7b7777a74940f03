"""CallBench: the same prompt and the same answer, computed again and again in one context, watched or not.

    clear, depth rows (not counted)    one prefill call    generate decode calls

Tokens are settled beforehand, so that every arm computes the same rows and must give the same bits.
"""

import hashlib
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arriero.backend.context import ContextOptions
from arriero.backend.llama_model import LlamaModel
from arriero.backend.watched_context import WatchedContext
from arriero.core.config import FlashAttention, KvType
from arriero.core.errors import ConfigError
from arriero.core.ids import SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.engine.logit_bench import made_up_request
from arriero.lab.operators.recorder import STILL, Recorder, Watch
from arriero.record.cpu_lab.operators import ProfileSettings

MOST_ROWS: Final = 2048
"""Of a prompt: it is computed in one graph, for which buffers are allocated."""

_SEQUENCE: Final = SequenceId(0)


class Call(NamedTuple):
    """One decode call.

    Attributes:
        began_at, ended_at: nanoseconds of the monotonic clock, around filling the batch, computing and fetching.
        events: `EVENT[n]`; empty without a recorder.
        logits: a hash of all logits.
    """

    began_at: int
    ended_at: int
    events: NDArray[np.void]
    logits: bytes

    @property
    def ns(self) -> int:
        """From beginning to end."""
        return self.ended_at - self.began_at


class Visit(NamedTuple):
    """One repetition of one arm."""

    prefill: Call
    decode: tuple[Call, ...]


class CallBench:
    """One context of one arm, or of several that share a recorder."""

    def __init__(self, model: LlamaModel, settings: ProfileSettings, recorder: Recorder | None) -> None:
        """Make the context.

        Raises:
            ConfigError: the prompt is too long for one graph, or the context cannot be made.
        """
        check_settings(settings)
        length = settings.depth + settings.prompt + settings.generate
        options = ContextOptions(
            ctx_size=length,
            num_sequences=1,
            num_rows=max(settings.prompt, settings.depth),
            micro_batch=settings.prompt,
            num_threads=settings.threads,
            flash_attention=FlashAttention(settings.flash_attention),
            kv_type=KvType(settings.kv_type),
        )
        self._settings = settings
        self._recorder = recorder
        self._request = made_up_request(1, length)
        self._context = WatchedContext(model, options, recorder)

    def visit(self, prefill: Watch = STILL, decode: Watch = STILL) -> Visit:
        """Compute everything once, watched like this."""
        self.start()
        return Visit(self.prefill(prefill), tuple(self.decode(step, decode) for step in range(self._settings.generate)))

    def start(self) -> None:
        """Empty memory, and what lies before the prompt."""
        settings = self._settings
        self._watch(STILL)
        self._context.clear()
        if settings.depth:
            tokens = self._request.prompt[: settings.depth]
            self._context.decode([PrefillChunk(self._request, _SEQUENCE, 0, tokens, wants_logits=False)])

    def prefill(self, watch: Watch) -> Call:
        """The prompt, after `start`."""
        first, last = self._settings.depth, self._settings.depth + self._settings.prompt
        tokens = self._request.prompt[first:last]
        return self._call([PrefillChunk(self._request, _SEQUENCE, first, tokens, wants_logits=True)], watch)

    def decode(self, step: int, watch: Watch) -> Call:
        """The decode call of that number, after those before it."""
        place = self._settings.depth + self._settings.prompt + step
        return self._call([DecodeRow(self._request, _SEQUENCE, place, self._request.prompt[place])], watch)

    def close(self) -> None:
        """Free the context; once."""
        self._context.close()

    def _call(self, rows: Sequence[Row], watch: Watch) -> Call:
        self._watch(watch)
        began_at = time.perf_counter_ns()
        logits = self._context.decode(rows)
        ended_at = time.perf_counter_ns()
        events = np.empty(0, np.void) if self._recorder is None else self._recorder.events()
        return Call(began_at, ended_at, events, hashlib.blake2b(logits.tobytes(), digest_size=16).digest())

    def _watch(self, watch: Watch) -> None:
        if self._recorder is not None:
            self._recorder.watch(watch)


def check_settings(settings: ProfileSettings) -> None:
    """Refuse what one graph cannot hold.

    Raises:
        ConfigError: names the flag and the remedy.
    """
    if settings.prompt > MOST_ROWS:
        raise ConfigError(
            f"--prompt {settings.prompt}: a profile computes a prompt in one graph of at most {MOST_ROWS} rows; lower "
            f"it, and put the rest before it with --depth"
        )
