"""One anchor that decodes and probes whose prompts come beside it: what was computed, step by step.

In the engine the probes are released when the anchor's first step is over, by the engine's own thread, so the counts
are exact. Over HTTP a barrier on the anchor's second token releases them; how many steps pass until they arrive is the
machine's affair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from arriero.backend.protocol import Backend
from arriero.bench.experiments.steps import StepLog, chunk_rows, decode_step_us, speaks
from arriero.core.errors import ArrieroError
from arriero.core.ids import RequestId, TokenId
from arriero.core.request import FinishReason
from arriero.engine.engine import Engine
from arriero.engine.handle import RequestHandle
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.scheduler.draft import PrefillBudget

ANCHOR: Final = RequestId(1)
"""An engine counts its requests from here."""

NO_END_TOKENS: Final = frozenset[TokenId]()
END_WITHIN_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Prompt rows of a step; 0 is no bound."""

    per_sequence: int = 0
    per_step: int = 0

    @property
    def budget(self) -> PrefillBudget:
        """The same for the engine."""
        return PrefillBudget(per_sequence=self.per_sequence or None, per_step=self.per_step or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStep:
    """One step with rows.

    Attributes:
        active: requests that held a slot.
        largest_chunk: prompt rows of the sequence that had most; None if only the sum is known.
        anchor_speaks: the anchor got a token.
        decode_us: inside the decode call.
    """

    prefill_rows: int
    decode_rows: int
    active: int
    largest_chunk: int | None
    anchor_speaks: bool
    decode_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run of an anchor and its probes.

    Attributes:
        length: prompt tokens of each probe.
        num_probes: released together.
        steps: those with rows, in order.
        anchor_hash: of the anchor's answer.
        asked_rows: prompt tokens of all requests.
        problems: what went wrong, in words.
    """

    length: int
    caps: Caps
    num_probes: int
    steps: tuple[SeenStep, ...]
    anchor_hash: str
    asked_rows: int
    problems: tuple[str, ...] = ()

    @property
    def bound(self) -> int:
        """Prompt rows that the caps allow all probes together in one step."""
        bounds = [self.length * self.num_probes]
        if self.caps.per_sequence:
            bounds.append(self.caps.per_sequence * self.num_probes)
        if self.caps.per_step:
            bounds.append(self.caps.per_step)
        return min(bounds)

    def interference(self) -> list[SeenStep]:
        """Steps with prompt rows and decode rows in which the anchor and all probes run."""
        active = 1 + self.num_probes
        return [step for step in self.steps if step.prefill_rows and step.decode_rows and step.active == active]

    def plain_us(self) -> list[int]:
        """Decode calls of one decode row alone."""
        return [step.decode_us for step in self.steps if step.decode_rows == 1 and not step.prefill_rows]


def promised_steps(length: int, cap: int, remaining: int) -> int:
    """Interference steps of one probe: as many as its prompt has chunks, as long as the anchor decodes."""
    return min(remaining, ceil(length / (cap or length)))


def run_scenario(
    backend: Backend, anchor: Sequence[TokenId], probes: Sequence[Sequence[TokenId]], budget: int, caps: Caps
) -> Scenario:
    """Run one on a fresh engine; the backend is empty again afterwards."""
    handles: list[RequestHandle] = []

    def release(_: StepRecord) -> None:
        if len(handles) == 1:
            handles.extend(engine.submit(probe, budget, end_tokens=NO_END_TOKENS) for probe in probes)

    log = StepLog(release)
    engine = Engine(backend, EngineOptions(keep_alive=False, budget=caps.budget), observers=[log])
    handles.append(engine.submit(anchor, budget, end_tokens=NO_END_TOKENS))
    _run(engine, backend)
    problems = [*log.problems, *(problem for each in handles if (problem := _problem(each)) is not None)]
    return Scenario(
        length=len(probes[0]),
        caps=caps,
        num_probes=len(probes),
        steps=tuple(map(_seen, log.computed())),
        anchor_hash=_hash_of(handles[0]),
        asked_rows=len(anchor) + sum(map(len, probes)),
        problems=tuple(problems),
    )


def prefill_alone_us(backend: Backend, prompt: Sequence[TokenId]) -> int:
    """The decode call that computes a prompt in one piece, with nothing beside it."""
    log = StepLog()
    engine = Engine(backend, EngineOptions(keep_alive=False), observers=[log])
    engine.submit(prompt, 1, end_tokens=NO_END_TOKENS)
    _run(engine, backend)
    return sum(record.decode_us for record in log.computed())


def decode_alone_us(backend: Backend, prompt: Sequence[TokenId], num_tokens: int) -> list[int]:
    """Decode calls of one request alone."""
    log = StepLog()
    engine = Engine(backend, EngineOptions(keep_alive=False), observers=[log])
    engine.submit(prompt, num_tokens, end_tokens=NO_END_TOKENS)
    _run(engine, backend)
    return decode_step_us(log.computed())


def _run(engine: Engine, backend: Backend) -> None:
    """Run an engine to its end; one that takes too long is told to end, since its backend is closed afterwards."""
    engine.start(Dedicated())
    try:
        engine.join(END_WITHIN_S)
    except TimeoutError:
        engine.shutdown()
        engine.cancel_all()
        backend.interrupt()
        engine.join()


def _seen(record: StepRecord) -> SeenStep:
    shape = record.plan.shape
    return SeenStep(
        prefill_rows=shape.prefill_rows,
        decode_rows=shape.decode_rows,
        active=shape.num_running,
        largest_chunk=max(chunk_rows(record).values(), default=0),
        anchor_speaks=speaks(record, ANCHOR),
        decode_us=record.decode_us,
    )


def _problem(handle: RequestHandle) -> str | None:
    try:
        result = handle.wait(0)
    except (ArrieroError, TimeoutError) as error:
        return f"request {handle.request_id}: {type(error).__name__}: {error}"
    if result.reason is FinishReason.LENGTH:
        return None
    return f"request {handle.request_id}: ended as {result.reason} after {result.num_decoded} tokens"


def _hash_of(handle: RequestHandle) -> str:
    try:
        return f"{handle.wait(0).token_hash:016x}"
    except (ArrieroError, TimeoutError):
        return "none"
