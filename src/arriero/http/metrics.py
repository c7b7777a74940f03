"""Metrics: an observer that turns the engine's step records into counts and distributions.

One tally for all name sets: `metric_names` says what each exported name shows of it. Formulas are those of the metrics
dictionary: arrival, first start, tokens and end of a request are all on the engine's clock.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arriero.core.events import Admitted, Event, Finished, Preempted, Queued, ReuseVerdict, TokenEmitted
from arriero.core.ids import RequestId, Time
from arriero.core.plan import Failed, Interrupted, NoRoom, StepOutcome
from arriero.core.request import CancelReason, FinishReason, Request, RequestState
from arriero.engine.actor import monotonic_us
from arriero.engine.handle import Result
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.http.control_metrics import gauge_control, tell_control
from arriero.http.tally import SIZES, Tally
from arriero.kv.reuse import ReuseFigures
from arriero.metrics.explain_parts import Explanation
from arriero.metrics.promotions import Promotions
from arriero.scheduler.served_lately import ServedLately

COUNT_TOGETHER: Final = 64
"""Steps kept before they are counted: one by one their code would be cold after each decode call."""

STAGES: Final = {
    RequestState.WAITING: "waiting",
    RequestState.PREFILLING: "prefill",
    RequestState.DECODING: "decode",
    RequestState.FINISHED: "decode",
}


NOT_LOOKED_UP: Final = frozenset({ReuseVerdict.DISABLED, ReuseVerdict.UNSUPPORTED, ReuseVerdict.NO_SCOPE})
"""Verdicts on prompts for which nobody searched."""


@dataclass(slots=True)
class _Life:
    """One request's moments so far."""

    request: Request
    num_cached: int = 0
    started_at: Time | None = None
    first_at: Time | None = None
    last_at: Time | None = None
    num_tokens: int = 0
    num_preemptions: int = 0


class Metrics:
    """Observer of one engine, and counter of what HTTP answers; read by `exposition`."""

    def __init__(self, *, clock: Callable[[], Time] = monotonic_us) -> None:
        """Start empty; `clock` is the engine's."""
        self._tally = Tally()
        self._records: deque[StepRecord] = deque()
        self._settling = threading.Lock()
        self._clock = clock
        self._lives: dict[RequestId, _Life] = {}
        self._served = ServedLately()
        self._promotions = Promotions()
        self._stepped_at: Time | None = None
        self._has_work = False

    # ── from the engine's thread ────────────────────────────────────────────────────────────────────────────────────

    def on_start(self, at: Time) -> None:
        """The step age counts from here."""
        self._stepped_at = at

    def on_step(self, record: StepRecord) -> None:
        """Keep a step; steps are counted together, when their code is warm, and before the engine sleeps."""
        self._stepped_at, self._has_work = record.ended_at, record.snapshot.has_work
        self._records.append(record)
        if not record.plan.rows or len(self._records) >= COUNT_TOGETHER:
            self.settle()

    def on_end(self, result: Result) -> None:
        """Everything about an end is in the events of its step."""

    def on_close(self, summary: EngineSummary) -> None:
        """Nothing runs any more."""
        del summary
        self.settle()
        self._has_work = False
        for name in ("running", "waiting"):
            self._tally.set(name, 0)
        for reason in ("capacity", "prefix"):
            self._tally.set("waiting_by_reason", 0, reason)

    # ── from both ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def tally(self) -> Tally:
        """All counts and distributions, of every step so far."""
        self.settle()
        return self._tally

    @property
    def served(self) -> ServedLately:
        """What steps and answers took lately, every step so far included; for reading."""
        self.settle()
        return self._served

    def settle(self) -> None:
        """Count what was kept."""
        with self._settling:
            while self._records:
                self._count(self._records.popleft())

    # ── from the event loop ─────────────────────────────────────────────────────────────────────────────────────────

    def count_request(self, endpoint: str, outcome: str) -> None:
        """A sequence was answered, or not."""
        self._tally.add("requests", 1, endpoint, outcome)

    def count_rejection(self, reason: str, latency_us: Time) -> None:
        """A request was refused before it reached the engine, so long after it came."""
        self._tally.add("rejected", 1, reason)
        self._tally.observe("rejection_latency", latency_us / 1e6)

    def observe_cancel(self, latency_us: Time) -> None:
        """A cancel was carried out, so long after it was noticed."""
        self._tally.observe("cancel_latency", max(0, latency_us) / 1e6)

    def observe_story(self, explanation: Explanation) -> None:
        """A request has ended, and it is known where its time went; called by whoever explains it, from any thread."""
        for part, time_us in explanation.split.named.items():
            self._tally.observe("stall", time_us / 1e6, part)

    @property
    def step_age_s(self) -> float:
        """Seconds since the last step, while there is work; else 0."""
        if not self._has_work or self._stepped_at is None:
            return 0.0
        return max(0, self._clock() - self._stepped_at) / 1e6

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _count(self, record: StepRecord) -> None:
        for event in record.events:
            self._tell(event)
        if record.plan.rows:
            self._count_rows(record)
        self._gauge(record)

    def _tell(self, event: Event) -> None:
        match event:
            case TokenEmitted():
                self._tell_token(event)
            case Queued(request=request):
                self._lives[request.request_id] = _Life(request)
                self._promotions.came(request.priority)
            case Admitted():
                self._tell_start(event)
            case Preempted(request_id=request_id, num_computed=num_computed, swapped=swapped):
                self._lives[request_id].num_preemptions += 1
                self._promotions.came(self._lives[request_id].request.priority)
                self._tally.add("preemptions", 1, "swap" if swapped else "recompute")
                self._tally.add("repeated_rows", 0 if swapped else num_computed, "preemption")
            case Finished():
                self._tell_end(event, self._lives.pop(event.request.request_id))
            case _:
                pass

    def _tell_start(self, event: Admitted) -> None:
        life = self._lives[event.request.request_id]
        self._tally.add("promotions", self._promotions.started(event.request.priority))
        self._tally.add("swapped_in_tokens", event.num_swapped_in)
        if life.started_at is None:
            life.started_at = event.at
            num_prompt = len(event.request.prompt)
            self._tally.add("prompt_tokens", num_prompt)
            self._tally.observe("queue_time", (event.at - event.request.arrival_at) / 1e6)
            self._tell_prefix(event, life)

    def _tell_prefix(self, event: Admitted, life: _Life) -> None:
        """What the first start of a request found; a resume finds the request's own tokens, which are no hits."""
        tally, num_prompt = self._tally, len(event.request.prompt)
        life.num_cached = event.num_cached
        self._served.add_prompt(num_prompt, event.num_cached)
        tally.add("prefix_lookups", 1, event.verdict.value)
        tally.add("computed_tokens", num_prompt - event.num_cached)
        if event.verdict not in NOT_LOOKED_UP:
            tally.add("prefix_query_tokens", num_prompt)
        if event.prefix is not None:
            tally.add("cached_tokens", event.num_cached, event.prefix.value)
            tally.add("prefix_hit_tokens", event.num_cached)

    def _tell_token(self, event: TokenEmitted) -> None:
        life = self._lives[event.request_id]
        tally = self._tally
        if life.last_at is None:
            life.first_at = event.at
            tally.observe("ttft", (event.at - life.request.arrival_at) / 1e6)
            if life.started_at is not None:
                tally.observe("prefill_time", (event.at - life.started_at) / 1e6)
        else:
            tally.observe("itl", (event.at - life.last_at) / 1e6)
        life.last_at = event.at
        life.num_tokens += 1
        tally.add("generated_tokens")

    def _tell_end(self, event: Finished, life: _Life) -> None:
        tally = self._tally
        is_stop = event.cancel_reason is CancelReason.STOP
        tally.add("finished", 1, _finished_word(event))
        if event.state is RequestState.WAITING:
            self._promotions.left(event.request.priority)
        if event.reason is FinishReason.CANCELLED and event.cancel_reason is not None and not is_stop:
            stage = STAGES[event.state]
            tally.add("cancelled", 1, stage, event.cancel_reason.value)
            tally.add("wasted_rows", event.num_computed, stage)
        if event.reason in {FinishReason.STOP, FinishReason.LENGTH} or is_stop:
            self._tell_answer(event, life)

    def _tell_answer(self, event: Finished, life: _Life) -> None:
        """Distributions over requests that ended normally."""
        self._served.add_answer(life.num_tokens)
        tally, request = self._tally, event.request
        ended_at = event.at if life.last_at is None else life.last_at
        tally.observe("e2e", (ended_at - request.arrival_at) / 1e6)
        tally.observe("request_prompt_tokens", len(request.prompt), bounds=SIZES)
        tally.observe("request_computed_tokens", len(request.prompt) - life.num_cached, bounds=SIZES)
        tally.observe("request_output_tokens", life.num_tokens, bounds=SIZES)
        tally.observe("request_max_tokens", request.max_tokens, bounds=SIZES)
        tally.observe("request_n", 1, bounds=SIZES)
        tally.observe("request_preemptions", life.num_preemptions, bounds=SIZES)
        if life.started_at is not None:
            tally.observe("inference_time", (ended_at - life.started_at) / 1e6)
        if life.first_at is None or life.last_at is None:
            return
        decode_s = (life.last_at - life.first_at) / 1e6
        tpot_s = 0.0 if life.num_tokens == 1 else decode_s / (life.num_tokens - 1)
        tally.observe("tpot_or_zero", tpot_s)
        if life.num_tokens > 1:
            tally.observe("decode_time", decode_s)
            tally.observe("tpot", tpot_s)
            tally.add("decode_seconds", decode_s)

    def _count_rows(self, record: StepRecord) -> None:
        shape, tally = record.plan.shape, self._tally
        repeat = _repeat_of(record.outcome)
        if repeat is not None:
            tally.add("repeated_rows", shape.num_rows, repeat)
        else:
            tally.add("prefill_rows", shape.prefill_rows)
        kind = "mixed" if shape.prefill_rows and shape.decode_rows else "prefill" if shape.prefill_rows else "decode"
        step_us = record.ended_at - record.began_at
        self._served.add_step(step_us, shape.prefill_rows, shape.decode_rows)
        tally.observe("step", step_us / 1e6, kind)
        tally.observe("host", max(0, step_us - record.decode_us) / 1e6)
        tally.observe("step_rows", shape.prefill_rows, "prefill", bounds=SIZES)
        tally.observe("step_rows", shape.decode_rows, "decode", bounds=SIZES)
        num_tokens = sum(isinstance(event, TokenEmitted) for event in record.events)
        tally.observe("step_tokens", shape.prefill_rows + num_tokens, bounds=SIZES)
        tally.add("busy_slots", shape.num_running)
        if shape.prefill_rows:
            tally.add("prefill_call_seconds", record.decode_us / 1e6)
        tell_control(tally, record, kind)

    def _gauge(self, record: StepRecord) -> None:
        snapshot, tally = record.snapshot, self._tally
        scheduler, kv = snapshot.scheduler, snapshot.scheduler.kv
        tally.set("running", scheduler.num_running)
        tally.set("waiting", scheduler.num_waiting)
        tally.set("waiting_by_reason", scheduler.num_waiting - scheduler.num_deferred_prefix, "capacity")
        tally.set("waiting_by_reason", scheduler.num_deferred_prefix, "prefix")
        tally.set("slots", kv.sequences_held + kv.sequences_free + kv.sequences_retained)
        tally.set("kv_cells", kv.active_cells, "active")
        tally.set("kv_cells", kv.retained_cells, "retained")
        tally.set("kv_cells", kv.free_cells, "free")
        tally.set("kv_usage", kv.active_cells / kv.num_cells)
        tally.set("swapped_tokens", kv.swapped_tokens)
        tally.set("sequence_tokens_max", kv.largest_sequence)
        tally.set("decode_calls", snapshot.totals.decode_calls)
        tally.set("decode_failures", snapshot.totals.decode_failures, "decode_failed")
        gauge_control(tally, snapshot.totals)
        if scheduler.reuse is not None:
            self._gauge_reuse(scheduler.reuse)

    def _gauge_reuse(self, reuse: ReuseFigures) -> None:
        tally = self._tally
        for cause, num_runs in reuse.evictions.items():
            tally.set("evicted_runs", num_runs, cause.value)
        for cause, num_cells in reuse.evicted_cells.items():
            tally.set("evicted_cells", num_cells, cause.value)
        tally.set("shared_cells", reuse.shared_cells)
        tally.set("retained_runs", reuse.retained_runs)
        tally.set("host_runs", reuse.host_runs)
        tally.set("host_tokens", reuse.host_tokens)


def _repeat_of(outcome: StepOutcome | None) -> str | None:
    """Why the rows of a step are computed again, or None if they are not."""
    match outcome:
        case NoRoom():
            return "no_room"
        case Interrupted():
            return "interrupt"
        case Failed():
            return "failed_step"
        case _:
            return None


def _finished_word(event: Finished) -> str:
    """The closed set of vLLM's `finished_reason`."""
    match event.reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            return event.reason.value
        case FinishReason.CANCELLED:
            return "stop" if event.cancel_reason is CancelReason.STOP else "abort"
        case FinishReason.ABORTED:
            return "abort"
        case FinishReason.FAILED:
            return "error"
