"""Engine: one backend, one running batch, many callers.

    engine = Engine(backend, EngineOptions())
    engine.start(Dedicated())
    handle = engine.submit(tokens, 64, want_stream=True)
    for tokens in handle.stream: ...
    engine.shutdown(); engine.join()

An engine starts once. It neither starts nor stops an event loop or llama.cpp, and it does not close its backend: after
`join` or `wait_closed` the backend may be closed, or given to another engine.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from arriero.backend.protocol import Backend, BackendLimits
from arriero.core.errors import ArrieroError, ConfigError, Draining, InvalidRequest
from arriero.core.events import CancelById, CancelByToken, CancelEverything, RetainedAction, RetainedReport
from arriero.core.ids import Epoch, RequestId, Time, TokenId
from arriero.core.request import GREEDY, CancelReason, Request, SamplingParams
from arriero.engine.actor import Actor, ActorOptions, Clock, monotonic_us
from arriero.engine.building import build_scheduler
from arriero.engine.door import Door, Place
from arriero.engine.executor import Executor
from arriero.engine.handle import RequestHandle, TokenStream
from arriero.engine.inbox import Cancel, Inbox, Shutdown, Submit, TakePicture, TakeSnapshot, Tend
from arriero.engine.observer import EngineSnapshot, EngineSummary, Observer, Observers
from arriero.engine.open_requests import OpenRequests
from arriero.engine.options import EngineOptions, check_options, num_running
from arriero.engine.placement import Dedicated, Placement, Shared, run_dedicated, run_shared
from arriero.kv.reuse import CachePicture
from arriero.scheduler.admission import BacklogCounts, check_fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the engine is well, from its last published figures.

    Attributes:
        alive: the loop runs.
        accepting: new work is taken.
        reason: why not, in one line, or None.
        has_work: requests are alive.
        step_age_us: since the end of the last step.
    """

    alive: bool
    accepting: bool
    reason: str | None
    has_work: bool
    step_age_us: Time


class Engine:
    """The public face of an actor."""

    def __init__(
        self,
        backend: Backend,
        options: EngineOptions | None = None,
        *,
        observers: Sequence[Observer] = (),
        clock: Clock = monotonic_us,
        name: str = "arriero-engine",
    ) -> None:
        """Nothing runs before `start`; requests may be submitted or preloaded already.

        Raises:
            ConfigError: backend and options do not go together.
        """
        self._backend = backend
        self._options = options if options is not None else EngineOptions()
        check_options(backend.limits, backend.reuse_support, self._options)
        self._observers = Observers(observers)
        self._clock = clock
        self._name = name
        self._inbox = Inbox()
        backlog = self._options.backlog
        self._door = Door(None if backlog is None else num_running(backend.limits, self._options) + backlog)
        self._ids = count(1)
        self._preloaded: list[Request] = []
        self._run: _Run | None = None

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def limits(self) -> BackendLimits:
        """What the backend can take."""
        return self._backend.limits

    @property
    def end_tokens(self) -> frozenset[TokenId]:
        """The model's end-of-generation tokens."""
        return self._backend.end_tokens

    def start(self, placement: Placement) -> None:
        """Start the loop; `Shared` on the running event loop.

        Raises:
            ConfigError: started before, the placement cannot be had, or preloaded prompts exceed one batch.
        """
        if self._run is not None:
            message = "an engine starts once; build another one"
            raise ConfigError(message)
        num_preloaded = min(len(self._preloaded), num_running(self.limits, self._options))
        preloaded_rows = sum(len(request.prompt) for request in self._preloaded[:num_preloaded])
        if preloaded_rows > self.limits.num_rows:
            message = (
                f"preloaded prompts have {preloaded_rows} tokens together and one batch has {self.limits.num_rows} "
                f"rows; raise --batch or submit them after the start"
            )
            raise ConfigError(message)
        actor = self._build(num_preloaded)
        run = _Run(actor)
        match placement:
            case Dedicated(cpus):
                run_dedicated(actor, self._clock, cpus, self._name, run.close)
            case Shared():
                run.task = run_shared(actor, self._clock, self._name, run.close)
        self._run = run

    def shutdown(self) -> None:
        """Take no new work, finish what can be finished, then end; asking again does nothing."""
        self._inbox.refuse(Draining("the engine is shutting down; try another server"))
        self._inbox.post(Shutdown())

    def cancel_all(self, reason: CancelReason = CancelReason.SHUTDOWN) -> None:
        """Cancel whatever is alive: the time to drain is over."""
        self._inbox.post(Cancel(CancelEverything(reason)))

    def join(self, timeout_s: float | None = None) -> EngineSummary:
        """Wait in a plain thread for the end.

        Raises:
            TimeoutError: it did not come in time.
            ConfigError: the engine was never started.
        """
        return self._started().closed.result(timeout_s)

    async def wait_closed(self) -> EngineSummary:
        """Wait on an event loop for the end."""
        return await asyncio.shield(asyncio.wrap_future(self._started().closed))

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self) -> Place:
        """Take a place in the backlog before the work of preparing a request.

        Raises:
            QueueFull: none is left; Draining or EngineDied: the engine takes no new work.
        """
        if (refusal := self._inbox.refusal) is not None:
            raise refusal
        return self._door.enter()

    def submit(  # noqa: PLR0913 - keyword-only options of the one public call, each with a default
        self,
        prompt: Sequence[TokenId],
        max_tokens: int,
        *,
        sampling: SamplingParams = GREEDY,
        end_tokens: frozenset[TokenId] | None = None,
        min_tokens: int = 0,
        want_stream: bool = False,
        request_id: int | None = None,
        session_id: str | None = None,
        cache_scope: str | None = "",
        timeout_ms: int | None = None,
        place: Place | None = None,
        arrival_at: Time | None = None,
        preloaded: bool = False,
    ) -> RequestHandle:
        """Ask for up to `max_tokens` tokens after `prompt`; never waits, from any thread.

        Args:
            prompt: token ids, at least one.
            max_tokens: the decode budget, at least 1.
            sampling: greedy by default.
            end_tokens: tokens that end the answer; None: the model's, empty: none.
            min_tokens: end tokens are not chosen before so many were emitted.
            want_stream: whether the handle gets a stream.
            request_id: a number of the caller's own, not alive now; None: the next free one, counted from 1.
            session_id: the conversation that it belongs to.
            cache_scope: requests of one scope may start from one another's prefixes; None: neither does this one, nor
                does anybody from it.
            timeout_ms: cancelled at the first boundary after so long, waiting included.
            place: a place taken by `enter`, which the caller gives back; None: one is taken and given back here.
            arrival_at: when the caller's request was complete, on the engine's clock; None: now.
            preloaded: computed in step 0, all prompts in one batch; only before `start`.

        Raises:
            InvalidRequest, ContextTooLong: it can never run. QueueFull, Draining, EngineDied: not now.
            Nothing was queued in either case.
        """
        if preloaded and self._run is not None:
            message = "a request cannot be preloaded once the engine runs"
            raise InvalidRequest(message, field="preloaded")
        arrived = self._clock() if arrival_at is None else arrival_at
        request = Request(
            request_id=RequestId(next(self._ids) if request_id is None else request_id),
            prompt=tuple(prompt),
            max_tokens=max_tokens,
            arrival_at=arrived,
            sampling=sampling,
            end_tokens=self.end_tokens if end_tokens is None else end_tokens,
            min_tokens=min_tokens,
            expires_at=None if timeout_ms is None else arrived + timeout_ms * 1000,
            preloaded=preloaded,
            session_id=session_id,
            cache_scope=cache_scope,
        )
        check_fits(request, self.limits.sequence_limit)
        _check_tokens(request, self.limits.vocab_size)
        return self._post(request, place, want_stream=want_stream)

    def cancel(self, request_id: int, reason: CancelReason = CancelReason.USER) -> None:
        """Cancel whichever request of this id is alive, or the next one submitted under it; never waits."""
        self._inbox.post(Cancel(CancelById(RequestId(request_id), reason)))

    def cancel_submission(self, request_id: int, epoch: int, reason: CancelReason = CancelReason.USER) -> None:
        """Cancel exactly one submission; never waits."""
        self._inbox.post(Cancel(CancelByToken(RequestId(request_id), Epoch(epoch), reason)))

    # ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def now(self) -> Time:
        """The engine's clock."""
        return self._clock()

    @property
    def door(self) -> BacklogCounts:
        """How the door was used."""
        return self._door.counts

    @property
    def snapshot(self) -> EngineSnapshot:
        """Figures of the last boundary; never waits for the engine.

        Raises:
            ConfigError: the engine was never started.
        """
        return self._started().actor.snapshot

    async def ask_snapshot(self) -> EngineSnapshot:
        """Figures of the next boundary, or the last ones of an engine that has ended."""
        answer: Future[EngineSnapshot] = Future()
        if not self._inbox.post(TakeSnapshot(answer)):
            return self.snapshot
        return await asyncio.wrap_future(answer)

    async def ask_cache(self) -> CachePicture | None:
        """What is retained at the next boundary; None if nothing ever is.

        Raises:
            Draining, EngineDied: the engine has ended.
        """
        answer: Future[CachePicture | None] = Future()
        self._post_question(TakePicture(answer))
        return await asyncio.wrap_future(answer)

    async def ask_retained(self, action: RetainedAction) -> RetainedReport:
        """Save, restore or erase all retained runs at the next boundary; who runs goes on.

        Raises:
            Draining, EngineDied: the engine has ended.
        """
        answer: Future[RetainedReport] = Future()
        self._post_question(Tend(action, answer))
        return await asyncio.wrap_future(answer)

    @property
    def health(self) -> Health:
        """Whether the engine is well; never waits for the engine."""
        run = self._run
        refusal = self._inbox.refusal
        if run is None:
            return Health(alive=False, accepting=refusal is None, reason="not started", has_work=False, step_age_us=0)
        snapshot = run.actor.snapshot
        return Health(
            alive=not run.closed.done(),
            accepting=refusal is None,
            reason=None if refusal is None else str(refusal),
            has_work=snapshot.has_work or len(self._inbox) > 0,
            step_age_us=max(0, self._clock() - snapshot.at),
        )

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _started(self) -> "_Run":
        if self._run is None:
            message = "the engine was never started"
            raise ConfigError(message)
        return self._run

    def _post_question(self, question: TakePicture | Tend) -> None:
        if not self._inbox.post(question):
            raise self._inbox.refusal or Draining("the engine has shut down; start another one")

    def _post(self, request: Request, place: Place | None, *, want_stream: bool) -> RequestHandle:
        own_place = self.enter() if place is None else None
        try:
            handle = self._inbox.submit(lambda epoch: self._submission(request, epoch, want_stream=want_stream))
        except ArrieroError:
            if own_place is not None:
                own_place.leave()
            raise
        if own_place is not None:
            handle.when_done(own_place.leave)
        return handle

    def _submission(self, request: Request, epoch: Epoch, *, want_stream: bool) -> Submit:
        stamped = replace(request, epoch=epoch)
        if request.preloaded:
            self._preloaded.append(stamped)
        cancel = partial(self.cancel_submission, request.request_id, epoch)
        handle = RequestHandle(request.request_id, epoch, TokenStream() if want_stream else None, cancel)
        return Submit(stamped, handle)

    def _build(self, num_preloaded: int) -> Actor:
        options = self._options
        saved = self._backend.saved_runs() if options.reuse is not None else ()
        return Actor(
            build_scheduler(self.limits, options, num_preloaded, saved),
            Executor(self._backend, check=options.check),
            self._inbox,
            options=ActorOptions(keep_alive=options.keep_alive, check=options.check, adopted=saved),
            requests=OpenRequests(options.stream_high_water),
            observers=self._observers,
            clock=self._clock,
        )


class _Run:
    """One life of an actor."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.closed: Future[EngineSummary] = Future()
        self.task: asyncio.Task[None] | None = None  # the loop keeps only weak references to its tasks

    def close(self, summary: EngineSummary) -> None:
        self.closed.set_result(summary)


def _check_tokens(request: Request, vocab_size: int) -> None:
    bad = next((token for token in request.prompt if not 0 <= token < vocab_size), None)
    if bad is not None:
        message = f"prompt token {bad} is outside the vocabulary of {vocab_size} tokens"
        raise InvalidRequest(message, field="prompt")
    if not 0 <= request.min_tokens <= request.max_tokens:
        message = f"min_tokens must be between 0 and max_tokens ({request.max_tokens}), not {request.min_tokens}"
        raise InvalidRequest(message, field="min_tokens")
