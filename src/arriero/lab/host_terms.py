"""What an engine does in a step outside the decode call: measured by running one, without and with readers.

    step, entry    an engine alone, once with one request and once with as many as there are sequences
    token          choosing tokens, timed by itself
    delivery       what readers on an event loop beside the engine add: its wake-up and the interpreter's lock

What HTTP adds on top is no part of it; a server that serves learns that from its own steps.
"""

import asyncio
from collections.abc import Iterable
from statistics import median
from typing import Final

from arriero.backend.protocol import Backend
from arriero.core.ids import Time
from arriero.costmodel.calibrated import HostCosts
from arriero.engine.engine import Engine
from arriero.engine.handle import Result, TokenStream
from arriero.engine.logit_bench import made_up_request
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.lab.stand import Sample

NUM_STEPS: Final = 24
_PROMPT_TOKENS: Final = 4


def host_costs(backend: Backend, samples: Iterable[Sample]) -> HostCosts:
    """Run engines on an empty backend, which is empty again afterwards; not on an event loop.

    Args:
        backend: with nothing in memory.
        samples: for the time that choosing tokens took.
    """
    most = backend.limits.num_sequences
    token = _token_us(samples)
    alone, crowd = _outside_us(backend, 1, reads=False), _outside_us(backend, most, reads=False)
    entry = max(0.0, (crowd - alone) / (most - 1) - token) if most > 1 else 0.0
    read = _outside_us(backend, most, reads=True)
    return HostCosts(
        step=max(0.0, alone - entry - token), entry=entry, token=token, delivery=max(0.0, (read - crowd) / most)
    )


class HostWatch:
    """An observer that keeps what decode steps of so many requests took outside the decode call."""

    def __init__(self, num_requests: int) -> None:
        """Nothing is seen yet."""
        self._num_requests = num_requests
        self.outside_us: list[float] = []

    def on_start(self, at: Time) -> None:
        """Nothing."""

    def on_step(self, record: StepRecord) -> None:
        """Keep a step in which everybody decodes."""
        shape = record.plan.shape
        if shape.decode_rows == self._num_requests and not shape.prefill_chunks:
            self.outside_us.append(record.ended_at - record.began_at - record.decode_us)

    def on_end(self, result: Result) -> None:
        """Nothing."""

    def on_close(self, summary: EngineSummary) -> None:
        """Nothing."""


def _token_us(samples: Iterable[Sample]) -> float:
    each = [
        sample.choose_us / num_tokens
        for sample in samples
        if (num_tokens := sum(row.wants_logits for row in sample.rows))
    ]
    return median(each) if each else 0.0


def _outside_us(backend: Backend, num_requests: int, *, reads: bool) -> float:
    """The median over decode steps; 0 if there was none."""
    watch = HostWatch(num_requests)
    asyncio.run(_serve(backend, watch, num_requests, reads=reads))
    return median(watch.outside_us) if watch.outside_us else 0.0


async def _serve(backend: Backend, watch: HostWatch, num_requests: int, *, reads: bool) -> None:
    engine = Engine(backend, EngineOptions(keep_alive=False), observers=[watch])
    max_tokens = max(1, min(NUM_STEPS, backend.limits.sequence_limit - _PROMPT_TOKENS))
    handles = [
        engine.submit(
            made_up_request(number, _PROMPT_TOKENS).prompt, max_tokens, end_tokens=frozenset(), want_stream=reads
        )
        for number in range(1, num_requests + 1)
    ]
    engine.start(Dedicated())
    streams = [handle.stream for handle in handles if handle.stream is not None]
    await asyncio.gather(*(_read(stream) for stream in streams))
    await engine.wait_closed()


async def _read(stream: TokenStream) -> None:
    async for _ in stream:
        pass
