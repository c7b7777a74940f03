"""split_host: the parts of an engine's step, measured around the engine's own objects while it serves.

    pass of the loop   plan | run                                       | commit | deliver
    inside of run             backend.decode                 | sampling
    inside of decode          filling | llama_decode | fetch

The engine is the one that serves; only methods of its objects are wrapped, a quarter of a microsecond each. The rows of
its own diagnostics are taken beside it, so that the two can be compared.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from arriero.backend.context import ContextOptions
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.protocol import Backend
from arriero.core.config import FlashAttention, KvType
from arriero.core.ids import Time
from arriero.engine.actor import Actor, ActorOptions, monotonic_us
from arriero.engine.building import build_scheduler
from arriero.engine.diagnostics import iter_row
from arriero.engine.engine import Engine
from arriero.engine.executor import Executor
from arriero.engine.handle import Result
from arriero.engine.logit_bench import made_up_request
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.engine.open_requests import OpenRequests
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.engine.step_control import build_control
from arriero.lab.operators.stopwatch import Stopwatch, Taken, TimedLibrary
from arriero.record.cpu_lab.host_split import HostPart, HostPoint, HostSplit, PartTimes
from arriero.record.cpu_lab.operators import ProfileSettings
from arriero.record.diagnostics import IterRow

SEQUENCES: Final = (1, 4, 8, 16)
CELLS: Final = 256  # of each sequence, as llama.cpp rounds
PROMPT: Final = 64
WARM_UP: Final = 4
"""Decode steps of a point that are in no figure."""

_PATIENCE_S: Final = 600.0


class _Whole(StrEnum):
    """What parts are differences of."""

    RUN = "run"
    DECODE = "decode"


class WatchedStep(NamedTuple):
    """One pass of the loop."""

    taken: Taken  # by part and by whole
    row: IterRow


class StepWatcher:
    """An observer that takes the stopwatch after every step of which all rows are decode rows."""

    def __init__(self, stopwatch: Stopwatch, sequences: int) -> None:
        """Keep steps of so many decode rows."""
        self._stopwatch = stopwatch
        self._sequences = sequences
        self._started_at: Time = 0
        self.steps: list[WatchedStep] = []

    def on_start(self, at: Time) -> None:
        """The loop begins."""
        self._started_at = at
        self._stopwatch.take()

    def on_step(self, record: StepRecord) -> None:
        """A step is over."""
        taken = self._stopwatch.take()
        shape = record.plan.shape
        if shape.decode_rows == self._sequences and not shape.prefill_rows:
            self.steps.append(WatchedStep(taken, iter_row(record, self._started_at)))
        self._stopwatch.take()  # what keeping it took belongs to no step

    def on_end(self, result: Result) -> None:
        """Nothing."""

    def on_close(self, summary: EngineSummary) -> None:
        """Nothing."""


class WatchedEngine(Engine):
    """An engine the methods of whose objects are timed."""

    def __init__(self, backend: Backend, stopwatch: Stopwatch, watcher: StepWatcher) -> None:
        """As an engine without options."""
        super().__init__(backend, EngineOptions(moves=False), observers=[watcher], name="arriero-host-split")
        self._stopwatch = stopwatch
        stopwatch.watch(backend, {"decode": _Whole.DECODE})

    def _build(self, num_preloaded: int) -> Actor:
        scheduler = build_scheduler(self.limits, self._options, num_preloaded)
        executor, requests = Executor(self._backend, interrupter=self._interrupter), OpenRequests(None)
        self._stopwatch.watch(scheduler, {"plan": HostPart.PLAN, "commit": HostPart.COMMIT})
        self._stopwatch.watch(executor, {"run": _Whole.RUN})
        self._stopwatch.watch(requests, {"tell": HostPart.DELIVER, "wake": HostPart.DELIVER})
        return Actor(
            scheduler,
            executor,
            self._inbox,
            options=ActorOptions(),
            requests=requests,
            observers=self._observers,
            clock=monotonic_us,
            control=build_control(self._options, self._interrupter),
        )


def split_host(
    model: LlamaModel, settings: ProfileSettings, sequences: Sequence[int] = SEQUENCES, *, num_steps: int
) -> HostSplit:
    """Serve so many sequences at a time, one number after another.

    Args:
        model: loaded for this alone: its library is wrapped.
        settings: threads, attention and KV type.
        sequences: numbers of them.
        num_steps: decode steps of each that count.

    Raises:
        ConfigError: the context cannot be made.
    """
    stopwatch = Stopwatch()
    model.library = TimedLibrary(model.library, stopwatch, {"llama_decode": HostPart.CALL})
    points = tuple(_point(model, settings, stopwatch, number, num_steps) for number in sequences)
    return HostSplit(prompt=PROMPT, points=points)


def _point(
    model: LlamaModel, settings: ProfileSettings, stopwatch: Stopwatch, sequences: int, num_steps: int
) -> HostPoint:
    options = ContextOptions(
        ctx_size=CELLS * sequences,
        num_sequences=sequences,
        num_threads=settings.threads,
        flash_attention=FlashAttention(settings.flash_attention),
        kv_type=KvType(settings.kv_type),
    )
    backend = LlamaCppBackend(model, options)
    watcher = StepWatcher(stopwatch, sequences)
    try:
        serve(WatchedEngine(backend, stopwatch, watcher), sequences, num_steps + WARM_UP + 1)
    finally:
        backend.close()
    return host_point(sequences, watcher.steps[WARM_UP:])


def serve(engine: Engine, sequences: int, num_tokens: int) -> None:
    """Answer so many requests at once, each with so many tokens, and end the engine."""
    handles = [
        engine.submit(made_up_request(number, PROMPT).prompt, num_tokens, end_tokens=frozenset(), want_stream=True)
        for number in range(1, sequences + 1)
    ]
    engine.start(Dedicated())
    try:
        for handle in handles:
            handle.wait(_PATIENCE_S)
    finally:
        engine.shutdown()
        engine.join(_PATIENCE_S)


def host_point(sequences: int, steps: Sequence[WatchedStep]) -> HostPoint:
    """The parts of every step; they sum up to the step."""
    by_step = [parts_of(step.taken) for step in steps]
    return HostPoint(
        sequences=sequences,
        step_ns=tuple(step.taken.ns for step in steps),
        parts=tuple(PartTimes(part=part, ns=tuple(parts[part] for parts in by_step)) for part in HostPart),
        iter_wall_us=tuple(step.row.iter_wall_us for step in steps),
        llama_decode_wall_us=tuple(step.row.llama_decode_wall_us for step in steps),
    )


def parts_of(taken: Taken) -> dict[HostPart, int]:
    """Where one step's time went; filling and fetching lie around the call of llama.cpp inside of `decode`."""
    spent, began = taken.spent, taken.began
    run, decode = spent.get(_Whole.RUN, 0), spent.get(_Whole.DECODE, 0)
    found = {part: spent.get(part, 0) for part in HostPart}
    if HostPart.CALL in began and _Whole.DECODE in began:
        found[HostPart.FILL] = began[HostPart.CALL] - began[_Whole.DECODE]
    found[HostPart.FETCH] = decode - found[HostPart.FILL] - found[HostPart.CALL]
    found[HostPart.SAMPLE] = run - decode
    found[HostPart.REST] = taken.ns - sum(ns for part, ns in found.items() if part is not HostPart.REST)
    return found
