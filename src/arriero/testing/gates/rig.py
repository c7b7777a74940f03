"""Rig: one engine over a fresh backend, watched; what every gate runs on.

    async with Rig(context, findings, shape) as rig:
        rig.preload(prompt, 8)
        run = await rig.run()

`run` starts the engine where the gate was told to, waits for its end, collects every answer and checks the promises
that hold for any run. A gate that has to act while the engine runs calls `start`, acts, and then `finish`.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from arriero.backend.protocol import Backend
from arriero.core.errors import ConfigError
from arriero.core.ids import TokenId
from arriero.core.request import SamplingParams
from arriero.engine.actor import Clock, monotonic_us
from arriero.engine.engine import Engine
from arriero.engine.handle import RequestHandle
from arriero.engine.observer import Observer
from arriero.engine.options import EngineOptions
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.promises import check_run
from arriero.testing.gates.run_record import Answer, RunRecord
from arriero.testing.gates.watch import StepLog

END_WITHIN_S: Final = 30.0
NO_END_TOKENS: Final = frozenset[TokenId]()


@dataclass(slots=True)
class _Asked:
    handle: RequestHandle
    streamed: list[TokenId] = field(default_factory=list[TokenId])
    closed_first: bool = True


class Rig:
    """One engine, its backend and its log; a gate enters it as an async context manager."""

    def __init__(
        self,
        context: GateContext,
        findings: Findings,
        shape: Shape,
        options: EngineOptions | None = None,
        *,
        observers: Sequence[Observer] = (),
        clock: Clock = monotonic_us,
    ) -> None:
        """Options default to a run that ends by itself; every invariant is checked after every step in any case."""
        chosen = options if options is not None else EngineOptions(keep_alive=False)
        self._options = replace(context.with_interrupts(chosen), check=True)
        self._findings = findings
        self._placement = context.placement
        self._asked: list[_Asked] = []
        self._has_started = False
        self.log = StepLog()
        self.backend: Backend = context.backends.make(shape)
        try:
            self.engine = Engine(self.backend, self._options, observers=[self.log, *observers], clock=clock)
        except ConfigError:
            self.backend.close()
            raise

    async def __aenter__(self) -> Self:
        """Nothing runs yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End the engine, whatever it is doing, and free the backend; one that cannot be ended keeps its backend."""
        if self._has_started:
            self.engine.shutdown()
            self.engine.cancel_all()
            try:
                async with asyncio.timeout(END_WITHIN_S):
                    await self.engine.wait_closed()
            except TimeoutError:
                self._findings.broke(f"the engine did not end within {END_WITHIN_S:.0f} s")
                return
        self.backend.close()

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────

    def submit(  # noqa: PLR0913 - as the engine's own, keyword-only options with defaults
        self,
        prompt: Sequence[TokenId],
        max_tokens: int,
        *,
        request_id: int | None = None,
        stream: bool = True,
        preloaded: bool = False,
        sampling: SamplingParams | None = None,
        timeout_ms: int | None = None,
        session_id: str | None = None,
        cache_scope: str | None = None,
    ) -> RequestHandle:
        """Ask for exactly `max_tokens` tokens: end tokens are ignored. Without a scope nothing is reused or kept."""
        handle = self.engine.submit(
            prompt,
            max_tokens,
            sampling=SamplingParams() if sampling is None else sampling,
            end_tokens=NO_END_TOKENS,
            want_stream=stream,
            request_id=request_id,
            session_id=session_id,
            cache_scope=cache_scope,
            timeout_ms=timeout_ms,
            preloaded=preloaded,
        )
        asked = _Asked(handle)
        self._asked.append(asked)
        handle.when_done(lambda: _note_order(asked))
        return handle

    def preload(self, prompt: Sequence[TokenId], *budgets: int, first_id: int = 0) -> list[RequestHandle]:
        """Requests handed over before the start, numbered from `first_id`, one for each budget."""
        return [
            self.submit(prompt, budget, request_id=number, preloaded=True)
            for number, budget in enumerate(budgets, first_id)
        ]

    # ── the run ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start the engine in the gate's placement."""
        self.engine.start(self._placement)
        self._has_started = True

    async def run(self) -> RunRecord:
        """Start, wait for the end, check."""
        self.start()
        return await self.finish()

    async def stop(self) -> RunRecord:
        """Shut down, wait for the end, check."""
        self.engine.shutdown()
        return await self.finish()

    async def finish(self) -> RunRecord:
        """Wait for the end, collect every answer, and check what holds for any run."""
        summary = await self.engine.wait_closed()
        answers = [await self._answer(asked) for asked in self._asked]
        for problem in self.log.problems:
            self._findings.broke(problem)
        run = RunRecord(tuple(answers), self.log, summary, self.engine.limits.num_rows)
        check_run(run, self._findings)
        return run

    async def read(self, handle: RequestHandle, num_tokens: int | None = None) -> int:
        """Read a stream on this loop until it has given so many tokens, or to its end; returns the number of pieces."""
        assert handle.stream is not None, "a request without a stream"
        streamed = next(asked.streamed for asked in self._asked if asked.handle is handle)
        num_pieces = 0
        async with aclosing(aiter(handle.stream)) as pieces:
            async for tokens in pieces:
                streamed.extend(tokens)
                num_pieces += 1
                if num_tokens is not None and len(streamed) >= num_tokens:
                    break
        return num_pieces

    async def _answer(self, asked: _Asked) -> Answer:
        result = await asked.handle.result()
        stream = asked.handle.stream
        return Answer(
            result=result,
            streamed=None if stream is None else (*asked.streamed, *stream.take()),
            close_reason=None if stream is None else stream.close_reason,
            closed_first=asked.closed_first,
        )


def _note_order(asked: _Asked) -> None:
    stream = asked.handle.stream
    asked.closed_first = stream is None or stream.close_reason is not None
