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
from dataclasses import replace
from functools import partial
from itertools import count

from arriero.backend.protocol import Backend, BackendLimits
from arriero.core.errors import ArrieroError, ConfigError, Draining
from arriero.core.events import (
    CancelById,
    CancelByToken,
    CancelEverything,
    CancelTarget,
    RetainedAction,
    RetainedReport,
)
from arriero.core.ids import Epoch, RequestId, Time, TokenId
from arriero.core.request import GREEDY, CancelReason, Request, SamplingParams
from arriero.costmodel.calibrated import CalibratedCost
from arriero.engine.actor import Actor, ActorOptions, Clock, monotonic_us
from arriero.engine.building import build_scheduler
from arriero.engine.door import Door, Place
from arriero.engine.executor import Executor
from arriero.engine.handle import RequestHandle, TokenStream
from arriero.engine.health import Health, health_of, not_started
from arriero.engine.inbox import Cancel, Inbox, Shutdown, Submit, TakePicture, TakeSnapshot, Tend
from arriero.engine.new_request import after, check_new
from arriero.engine.observer import EngineSnapshot, EngineSummary, Observer, Observers
from arriero.engine.open_requests import OpenRequests
from arriero.engine.options import EngineOptions, check_options, door_limits, num_running
from arriero.engine.overdue import OverdueWatch
from arriero.engine.placement import Dedicated, Placement, Shared, run_dedicated, run_shared
from arriero.engine.step_control import build_control, build_interrupter
from arriero.kv.reuse import CachePicture
from arriero.scheduler.backlog import BacklogCounts


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
        self._interrupter = build_interrupter(backend.interrupt, self._options)
        self._door = Door(door_limits(backend.limits, self._options))
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
        run = _Run(actor, OverdueWatch(self._interrupter, self._clock) if self._options.adapts_threads else None)
        match placement:
            case Dedicated(cpus):
                run_dedicated(actor, self._clock, cpus, self._name, run.close)
            case Shared():
                run.task = run_shared(actor, self._clock, self._name, run.close)
        self._run = run
        if run.watch is not None:
            run.watch.start(f"{self._name}-overdue")

    def shutdown(self) -> None:
        """Take no new work, finish what can be finished, then end; asking again does nothing."""
        self._inbox.refuse(Draining("the engine is shutting down; try another server"))
        self._inbox.post(Shutdown())

    def cancel_all(self, reason: CancelReason = CancelReason.SHUTDOWN) -> None:
        """Cancel whatever is alive: the time to drain is over."""
        self._cancel(CancelEverything(reason))

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

    def enter(self, tenant: str | None = None, *, tokens: int | None = None, start_by: Time | None = None) -> Place:
        """Take a place in the backlog before the work of preparing a request.

        Args:
            tenant: whose limits hold beside those of all; None: nobody's.
            tokens: of its prompt; None: not known yet, `Place.weigh` tells them.
            start_by: when it has waited for long enough, on the engine's clock; None: never. The door says so, at
                once; the request itself is to be submitted with the same time.

        Raises:
            QueueFull, KeyLimit: a bound is reached; Draining or EngineDied: the engine takes no new work.
        """
        if (refusal := self._inbox.refusal) is not None:
            raise refusal
        return self._door.enter(tenant, tokens=tokens, start_by=start_by, has_queue=self.has_queue)

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
        queue_timeout_ms: int | None = None,
        deadline_ms: int | None = None,
        priority: int = 0,
        tenant: str | None = None,
        place: Place | None = None,
        arrival_at: Time | None = None,
        preloaded: bool = False,
    ) -> RequestHandle:
        """Ask for up to `max_tokens` tokens after a prompt of at least one; never waits, from any thread.

        Args:
            end_tokens: tokens that end the answer; None: the model's, empty: none.
            min_tokens: end tokens are not chosen before so many were emitted.
            request_id: a number of the caller's own, not alive now; None: the next free one, counted from 1.
            cache_scope: requests of one scope share prefixes; None: this one neither takes any nor leaves one.
            timeout_ms: cancelled at the first boundary after so long, waiting included.
            queue_timeout_ms: cancelled if it has not started after so long.
            deadline_ms: the whole answer is wanted after so long; nothing ends then, but who has one may go earlier.
            priority: smaller goes first, where the policy heeds it.
            tenant: who pays for it in a fair share, and whose limits hold at the door; None: nobody in particular.
            place: a place taken by `enter`, which the caller gives back; None: one is taken and given back here.
            arrival_at: when the caller's request was complete, on the engine's clock; None: now.
            preloaded: computed in step 0, all prompts in one batch; only before `start`.

        Raises:
            InvalidRequest, ContextTooLong: never. Refused, EngineFault: not now. Nothing was queued in either case.
        """
        arrived = self._clock() if arrival_at is None else arrival_at
        request = Request(
            request_id=RequestId(next(self._ids) if request_id is None else request_id),
            prompt=tuple(prompt),
            max_tokens=max_tokens,
            arrival_at=arrived,
            sampling=sampling,
            end_tokens=self.end_tokens if end_tokens is None else end_tokens,
            min_tokens=min_tokens,
            expires_at=after(arrived, timeout_ms),
            preloaded=preloaded,
            session_id=session_id,
            cache_scope=cache_scope,
            priority=priority,
            deadline_at=after(arrived, deadline_ms),
            start_by=after(arrived, queue_timeout_ms),
            tenant=tenant,
        )
        check_new(request, self.limits, has_started=self._run is not None)
        return self._post(request, place, want_stream=want_stream)

    def cancel(self, request_id: int, reason: CancelReason = CancelReason.USER) -> None:
        """Cancel whichever request of this id is alive, or the next one submitted under it; never waits."""
        self._cancel(CancelById(RequestId(request_id), reason))

    def cancel_submission(self, request_id: int, epoch: int, reason: CancelReason = CancelReason.USER) -> None:
        """Cancel exactly one submission; never waits."""
        self._cancel(CancelByToken(RequestId(request_id), Epoch(epoch), reason))

    # ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def now(self) -> Time:
        """The engine's clock."""
        return self._clock()

    @property
    def places(self) -> Door:
        """The door itself: its bounds, who waits there, and who has waited for long enough."""
        return self._door

    @property
    def has_queue(self) -> bool:
        """Whether requests wait that found no room at the boundary of the last published figures."""
        return self._run is not None and self._run.actor.snapshot.scheduler.num_waiting > 0

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
    def cost(self) -> CalibratedCost | None:
        """What steps cost here, as the scheduler plans with it now; None without a profile. From any thread."""
        return self._options.cost if self._run is None else self._run.actor.control.cost

    @property
    def health(self) -> Health:
        """Whether the engine is well; never waits for the engine."""
        run = self._run
        if run is None:
            return not_started(self._inbox.refusal)
        bound = round(self._options.stuck_after_s * 1e6)
        return health_of(run.actor, self._clock(), alive=not run.closed.done(), after=bound)

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _started(self) -> "_Run":
        if self._run is None:
            message = "the engine was never started"
            raise ConfigError(message)
        return self._run

    def _cancel(self, target: CancelTarget) -> None:
        """Post it first: the interrupted call is followed by the boundary that takes it."""
        self._inbox.post(Cancel(target))
        if self._interrupter.is_on:
            self._interrupter.cancelled(target, self._clock())

    def _post_question(self, question: TakePicture | Tend) -> None:
        if not self._inbox.post(question):
            raise self._inbox.refusal or Draining("the engine has shut down; start another one")

    def _post(self, request: Request, place: Place | None, *, want_stream: bool) -> RequestHandle:
        taken = place
        if taken is None:
            taken = self.enter(request.tenant, tokens=len(request.prompt), start_by=request.start_by)
        make = partial(self._submission, request, taken, want_stream=want_stream)
        try:
            handle = self._inbox.submit(make)
        except ArrieroError:
            if place is None:
                taken.leave()
            raise
        if place is None:
            handle.when_done(taken.leave)
        return handle

    def _submission(self, request: Request, place: Place, epoch: Epoch, *, want_stream: bool) -> Submit:
        stamped = replace(request, epoch=epoch)
        if request.preloaded:
            self._preloaded.append(stamped)
        cancel = partial(self.cancel_submission, request.request_id, epoch)
        stream = TokenStream() if want_stream else None
        handle = RequestHandle(request.request_id, epoch, stream, cancel, on_start=place.start)
        return Submit(stamped, handle)

    def _build(self, num_preloaded: int) -> Actor:
        options = self._options
        saved = self._backend.saved_runs() if options.reuse is not None else ()
        return Actor(
            build_scheduler(self.limits, options, num_preloaded, saved),
            Executor(self._backend, check=options.check, interrupter=self._interrupter),
            self._inbox,
            options=ActorOptions(keep_alive=options.keep_alive, check=options.check, adopted=saved),
            requests=OpenRequests(options.stream_high_water),
            observers=self._observers,
            clock=self._clock,
            control=build_control(options, self._interrupter),
        )


class _Run:
    """One life of an actor."""

    def __init__(self, actor: Actor, watch: OverdueWatch | None) -> None:
        self.actor = actor
        self.watch = watch
        self.closed: Future[EngineSummary] = Future()
        self.task: asyncio.Task[None] | None = None  # the loop keeps only weak references to its tasks

    def close(self, summary: EngineSummary) -> None:
        if self.watch is not None:
            self.watch.stop()
        self.closed.set_result(summary)
