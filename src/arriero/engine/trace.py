"""Tracer: the life of each request, as published lines.

On the engine's thread a record is only put into the queue; the lines are made by the writer, so all state of the
`_Teller` belongs to the writer's thread. Requests that start with step 0 have their published names without
`admitted`; those that waited first have the others.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

from arriero.core.events import (
    Admitted,
    CancelById,
    CancelByToken,
    CancelIgnored,
    CancelObserved,
    CancelTarget,
    DropSequence,
    Event,
    Finished,
    IgnoreCause,
    Moved,
    Preempted,
    Queued,
    Rejected,
    RetainedAction,
    TokenEmitted,
)
from arriero.core.ids import NO_EPOCH, Epoch, RequestId, Time
from arriero.core.plan import DecodeRow
from arriero.core.request import FinishReason, Request
from arriero.costmodel.change import CostChange
from arriero.engine.handle import Result
from arriero.engine.life import Life
from arriero.engine.observer import Arrival, EngineSummary, StepRecord
from arriero.engine.sequence_drops import evicted_sequences
from arriero.record.lines import LineSink
from arriero.record.published import DOES_NOT_APPLY, STREAM_ENDS, number, published_status
from arriero.record.trace import trace_line


class Tracer:
    """An observer that writes the lifecycle trace."""

    def __init__(self, sink: LineSink, *, pool: str, checks_siblings: bool = False) -> None:
        """The sink stays its owner's, who closes it after the engine has ended.

        Args:
            sink: where the lines go.
            pool: the placement's name.
            checks_siblings: whether the engine compares the positions of bystanders around every clearing; without
                it nobody knows, and `cross_talk_ok` is -1.
        """
        self._sink = sink
        self._teller = _Teller(pool, cross_talk_ok=True if checks_siblings else DOES_NOT_APPLY)
        self._results: list[Result] = []
        self._has_gap = False

    def on_start(self, at: Time) -> None:
        """Note where times count from."""
        self._teller.started_at = at

    def on_step(self, record: StepRecord) -> None:
        """Write the lines of a step."""
        render = partial(self._teller.step, record, self._take_results(), after_gap=self._has_gap)
        self._has_gap = not self._sink.put(render)

    def on_end(self, result: Result) -> None:
        """Keep the result for the lines of its step, which is recorded next."""
        self._results.append(result)

    def on_close(self, summary: EngineSummary) -> None:
        """Write the lines of the end."""
        self._sink.put(partial(self._teller.close, summary, self._take_results()), keep=True)

    def _take_results(self) -> tuple[Result, ...]:
        results = tuple(self._results)
        self._results.clear()
        return results


class _Teller:
    """From records to lines."""

    def __init__(self, pool: str, *, cross_talk_ok: bool | int) -> None:
        self.started_at: Time = 0
        self._pool = pool
        self._cross_talk_ok = cross_talk_ok
        self._has_begun = False
        self._lives: dict[RequestId, Life] = {}
        self._arrivals: dict[Epoch, Arrival] = {}
        self._queued: dict[RequestId, Request] = {}  # preloaded ones that have not started yet
        self._targets: tuple[CancelById | CancelByToken, ...] = ()
        self._results: deque[Result] = deque()

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def step(self, record: StepRecord, results: Iterable[Result], *, after_gap: bool) -> Iterator[bytes]:
        """The lines of one step.

        After a gap nobody knows which requests have ended, so all are forgotten; those that live on are met again in
        their rows, and have no stream lines any more.
        """
        if after_gap:
            self._lives.clear()
        self._results.extend(results)
        if not self._has_begun:
            yield from self._begin(record)
        yield from self._messages(record)
        before, after = _around_rows(record)
        for event in before:
            yield from self._event(event)
        for position, request in enumerate(self._queued.values()):
            yield trace_line("request_queued", request.request_id, request.max_tokens, position)
        self._queued.clear()
        yield from self._rows(record)
        for event in after:
            yield from self._event(event)
        for sequence_id in evicted_sequences(record.events):
            yield trace_line("resident_slot_evicted", sequence_id, record.plan.step)

    def close(self, summary: EngineSummary, results: Iterable[Result]) -> Iterator[bytes]:
        """The lines of the end."""
        self._results.extend(results)
        self._targets = ()
        for event in summary.events:
            yield from self._event(event)
        for life in self._lives.values():
            yield from life.close_stream("error")
        self._lives.clear()
        for sequence_id in evicted_sequences(summary.events):
            yield trace_line("resident_slot_cleared_teardown", sequence_id)
        if summary.crashed is not None:
            yield trace_line("engine_crashed", summary.crashed.partition(":")[0])
        totals = summary.snapshot.totals
        wall_ms = (summary.ended_at - self.started_at) / 1000
        yield trace_line("engine_stop", totals.decode_calls, totals.steps, wall_ms)

    def _begin(self, record: StepRecord) -> Iterator[bytes]:
        self._has_begun = True
        kv = record.snapshot.scheduler.kv
        num_sequences = kv.sequences_free + kv.sequences_held + kv.sequences_quarantined
        arrivals = [each.request for each in record.messages if isinstance(each, Arrival) and each.request.preloaded]
        longest = max((len(request.prompt) for request in arrivals), default=DOES_NOT_APPLY)
        budget = max((request.max_tokens for request in arrivals), default=DOES_NOT_APPLY)
        yield trace_line("engine_start", num_sequences, longest, budget)
        yield trace_line("engine_task_placement", self._pool)

    def _messages(self, record: StepRecord) -> Iterator[bytes]:
        self._targets = tuple(each for each in record.messages if isinstance(each, CancelById | CancelByToken))
        self._arrivals.clear()
        for message in record.messages:
            if isinstance(message, Arrival):
                self._arrivals[message.request.epoch] = message
                if not message.request.preloaded:
                    yield from self._external(message.request, record.plan.step)
            elif not isinstance(message, RetainedAction | CostChange):
                yield from _drained(message)

    def _external(self, request: Request, step: int) -> Iterator[bytes]:
        submitted = int(request.arrival_at - self.started_at)
        yield trace_line("request_submitted_external", request.request_id, request.epoch, request.max_tokens, submitted)
        yield trace_line("arrival_drained", request.request_id, request.epoch, step)

    def _rows(self, record: StepRecord) -> Iterator[bytes]:
        step = record.plan.step
        for row in record.plan.rows:
            life = self._life(row.request)
            life.seq = row.sequence_id
            if isinstance(row, DecodeRow):
                yield from life.decode_row(step, row.start)

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _event(self, event: Event) -> Iterator[bytes]:
        match event:
            case Queued(request=request, position=position):
                yield from self._wait(request, position)
            case Rejected(request=request, error=error):
                yield trace_line("request_rejected", request.request_id, type(error).__name__)
                yield from self._born(request).close_stream("error")
            case Admitted():
                yield from self._admit(event)
            case TokenEmitted(request_id=request_id) if request_id in self._lives:
                yield from self._lives[request_id].token(event)
            case CancelObserved(request_id=request_id) if request_id in self._lives:
                yield from self._observe(self._lives[request_id], event)
            case CancelIgnored():
                yield _ignored(event)
            case Preempted():
                yield trace_line(
                    "request_preempted",
                    event.request_id,
                    event.sequence_id,
                    event.step,
                    event.cause.value,
                    event.num_computed,
                )
            case Moved():
                yield from self._move(event)
            case Finished():
                yield from self._finish(event)
            case _:
                pass

    def _wait(self, request: Request, position: int) -> Iterator[bytes]:
        self._lives[request.request_id] = self._born(request)
        if request.preloaded:
            self._queued[request.request_id] = request
        else:
            yield trace_line("request_queued", request.request_id, request.max_tokens, position)

    def _admit(self, event: Admitted) -> Iterator[bytes]:
        request, life = event.request, self._life(event.request)
        life.seq = event.sequence_id
        self._queued.pop(request.request_id, None)
        previous = event.previous_request_id
        life.is_live = event.step > 0
        if not life.is_live:
            yield trace_line("request_admitted", event.sequence_id, request.max_tokens)
        elif event.resumed:
            yield trace_line("request_resumed", request.request_id, event.sequence_id, event.step)
        else:
            reused = DOES_NOT_APPLY if previous is None else event.sequence_id
            yield trace_line(
                "request_admitted_live", request.request_id, reused, event.step, event.sequence_id, event.source.value
            )
        if previous is not None:
            yield trace_line("seq_reused", event.sequence_id, previous, request.request_id, event.step)
        if event.prefix is not None:
            yield trace_line(
                "prefix_reused", request.request_id, event.sequence_id, event.num_cached, event.prefix.value
            )
        if not event.resumed:
            yield from life.open_stream()

    def _move(self, event: Moved) -> Iterator[bytes]:
        if (life := self._lives.get(event.request_id)) is not None:
            life.seq = event.to
        yield trace_line("request_moved", event.request_id, event.sequence_id, event.to, event.step)

    def _observe(self, life: Life, event: CancelObserved) -> Iterator[bytes]:
        """The published order has the request of a cancel before its observation; here both are one step's."""
        yield trace_line("cancel_requested", event.sequence_id, life.request.max_tokens, event.num_decoded)
        target = next((each for each in self._targets if _meets(each, life.request)), None)
        if isinstance(target, CancelById):
            yield trace_line("cancel_active_observed", target.request_id)
        elif target is not None:
            yield trace_line("cancel_active_observed_token", target.request_id, target.epoch)
        yield trace_line("cancel_observed", event.sequence_id, event.step, event.num_decoded)

    def _finish(self, event: Finished) -> Iterator[bytes]:
        life = self._life(event.request)
        del self._lives[event.request.request_id]
        self._queued.pop(event.request.request_id, None)
        result = self._results.popleft()
        status = published_status(result.reason, result.cancel_reason)
        if event.sequence_id is None:
            yield from _end_waiting(event)
        elif event.reason is FinishReason.CANCELLED:
            yield self._given_back("cancel_kv_cleared", event, result)
        elif event.reason is FinishReason.FAILED:
            code = "" if event.error is None else event.error.code
            yield trace_line("request_failed", event.request.request_id, event.sequence_id, event.step, code)
        else:
            yield from life.complete(event.step, result.token_hash)
            yield self._given_back("kv_cleared", event, result)
        yield from life.close_stream(STREAM_ENDS[status])
        if event.sequence_id is not None:
            yield from self._fulfil(event, status, int(result.finished_at - self.started_at))

    def _given_back(self, name: str, event: Finished, result: Result) -> bytes:
        """Its sequence was cleared, or else its run stays."""
        if not result.kv_cleared and result.pos_max_at_clear is None and event.num_computed:
            return trace_line("resident_slot_created", number(event.sequence_id), event.num_computed)
        return trace_line(name, number(event.sequence_id), number(result.pos_max_at_clear), self._cross_talk_ok)

    def _fulfil(self, event: Finished, status: str, time_to_completion: int) -> Iterator[bytes]:
        if event.reason is FinishReason.CANCELLED:
            yield trace_line("cancel_future_fulfilled", number(event.sequence_id), status, time_to_completion)
        elif event.reason is not FinishReason.FAILED:
            yield trace_line("promise_fulfilled", number(event.sequence_id), time_to_completion)

    # ── lives ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _born(self, request: Request) -> Life:
        arrival = self._arrivals.get(request.epoch)
        has_stream = arrival is not None and arrival.has_stream
        return Life(request, has_stream=has_stream, is_live=not request.preloaded)

    def _life(self, request: Request) -> Life:
        """What is known of a request; after a gap, what its events still say."""
        return self._lives.setdefault(request.request_id, self._born(request))


def _around_rows(record: StepRecord) -> tuple[tuple[Event, ...], tuple[Event, ...]]:
    """The events before the rows ran, and those after."""
    events, planned = record.events, record.plan.events
    if planned:
        first = next(index for index, event in enumerate(events) if event is planned[0])
        split = first + len(planned)
    else:
        split = next((index for index, event in enumerate(events) if _needs_rows(event)), len(events))
    return events[:split], events[split:]


def _needs_rows(event: Event) -> bool:
    """Whether it cannot come from a message; told only of events where planning caused none."""
    is_end = isinstance(event, Finished) and event.sequence_id is not None
    return is_end or isinstance(event, TokenEmitted | DropSequence | Preempted)


def _meets(target: CancelById | CancelByToken, request: Request) -> bool:
    """Whether a cancel of this step means this submission."""
    if target.request_id != request.request_id:
        return False
    return isinstance(target, CancelById) or target.epoch == request.epoch


def _drained(target: CancelTarget) -> Iterator[bytes]:
    if isinstance(target, CancelById):
        yield trace_line("cancel_drained", target.request_id)
    elif isinstance(target, CancelByToken):
        yield trace_line("cancel_drained_token", target.request_id, target.epoch)


def _ignored(event: CancelIgnored) -> bytes:
    if event.cause is IgnoreCause.STALE_EPOCH:
        return trace_line("cancel_stale_epoch", event.request_id, event.epoch)
    is_duplicate = event.cause is IgnoreCause.DUPLICATE
    name = "cancel_request_duplicate" if is_duplicate else "cancel_unknown_request_id"
    if event.epoch == NO_EPOCH:
        return trace_line(name, event.request_id)
    return trace_line(f"{name}_token", event.request_id, event.epoch)


def _end_waiting(event: Finished) -> Iterator[bytes]:
    request_id = event.request.request_id
    if event.reason is FinishReason.ABORTED:
        yield trace_line("queued_shutdown_aborted", request_id)
    elif event.cancel_reason is not None:
        yield trace_line("queued_cancelled", request_id, event.cancel_reason.value)
