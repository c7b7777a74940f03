"""SimulatedDriver: a schedule in the simulator, in virtual time, and back as lives of a client.

The scheduler that serves is driven by a cost model's clock. Sends are never late there and the network takes no time,
so a life has the moments of the server's side. Clients, think times and cancellations are those of the schedule: what
waits for an answer waits for the simulated one.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from arriero.bench.loops import LoopRun
from arriero.bench.loops_lines import DRAIN_LIMIT, INTERRUPTED
from arriero.bench.loops_watch import RunWatch
from arriero.bench.runner_points import PointRun, TargetKind
from arriero.bench.schedule import Planned, Schedule
from arriero.bench.simulated_lives import Ending, simulated_life
from arriero.bench.simulated_senders import NS_PER_US, Senders
from arriero.core.errors import ConfigError
from arriero.core.events import CancelById, Finished, Rejected
from arriero.core.ids import RequestId, Time
from arriero.core.plan import PrefillChunk
from arriero.core.request import CancelReason, Request
from arriero.metrics.client_life import ClientLife
from arriero.record.bench_parts import Evidence
from arriero.record.simulation_config import SimulationConfig
from arriero.sim.composition import build_memory, build_scheduler
from arriero.sim.own_answers import KnownAnswers, Turn, answers_in
from arriero.sim.own_lives import OwnLives
from arriero.sim.own_run import request_of
from arriero.sim.own_scopes import answers_return, reuses_cells, scope_of
from arriero.sim.own_setup import new_cost, own_setup
from arriero.sim.simulator import (
    Answers,
    Cancellation,
    Message,
    NoAnswers,
    SimulatedStep,
    Simulator,
    Submission,
    always,
    never,
)
from arriero.workload.notes import Notes, as_metadata
from arriero.workload.records import WorkloadClass, WorkloadRecord
from arriero.workload.tokens import PackedTokens

STALLED: Final = "stalled"
_EVERY: Final = 2048  # steps between two turns of the event loop


class SimulatedDriver:
    """A `Driver`: runs schedules in the simulator."""

    def __init__(self, config: SimulationConfig, *, name: str | None = None, check: bool = False) -> None:
        """Nothing is built yet; each run gets a scheduler of its own.

        Args:
            config: of scheduler, memory and cost; its workload, window and objectives are not used.
            name: for tables; None: that of the configuration.
            check: verify every invariant after every step.
        """
        self._config = config
        self.name = config.name if name is None else name
        self._check = check

    @property
    def kind(self) -> TargetKind:
        """`simulated`."""
        return "simulated"

    @property
    def evidence(self) -> Evidence:
        """What its figures are."""
        return Evidence.SIMULATED

    async def run(
        self, schedule: Schedule, *, stop: asyncio.Event | None = None, watch: RunWatch | None = None
    ) -> PointRun:
        """Simulate one schedule.

        Raises:
            ConfigError: prompts are text, or parts of the configuration do not go together.
        """
        course = _Course(self._config, schedule, watch or RunWatch())
        interrupted = False
        for number, step in enumerate(course.steps(check=self._check)):
            if not course.take(step):
                break
            if number % _EVERY == _EVERY - 1:
                await asyncio.sleep(0)
                if stop is not None and stop.is_set():
                    interrupted = True
                    break
        return PointRun(schedule=schedule, came=course.sum_up(interrupted=interrupted))

    async def facts(self) -> dict[str, Any]:
        """The configuration, without what is not used."""
        values: dict[str, Any] = msgspec.to_builtins(self._config)
        unused = {"workload", "seeds", "slos", "window", "trace"}
        return {name: value for name, value in values.items() if name not in unused}

    async def close(self) -> None:
        """Nothing to close."""


class _Course:
    """One run; internal ids count from 1 in the order of the schedule."""

    def __init__(self, config: SimulationConfig, schedule: Schedule, watch: RunWatch) -> None:
        self._config = config
        self._schedule = schedule
        self._watch = watch
        self._senders = Senders(schedule)
        self._records = [_record(item) for item in schedule.planned]
        self._lives = OwnLives(self._records, is_looked_up=lambda record: scope_of(config, record) is not None)
        self._ends: dict[int, Finished | Rejected] = {}
        self._tokens: Counter[int] = Counter()  # of requests that will be cancelled, until they are
        self._cancels: list[Cancellation] = []
        self._now: Time = 0
        self._gave_up_at: int | None = None
        watch.begin(len(schedule.planned), 0)

    # ── the simulator's inbox ───────────────────────────────────────────────────────────────────────────────────────

    def due(self, now: Time) -> Sequence[Message]:
        """Take what is due: cancels first, then submissions."""
        messages: list[Message] = [*self._cancels]
        self._cancels.clear()
        for number, at in self._senders.due(int(now)):
            item = self._schedule.planned[number]
            self._watch.note_sent(0)
            if item.ask.cancel_after == 0:  # closes the connection as soon as it has sent
                messages.insert(0, _cancel(number + 1, now))
            messages.append(Submission(self._request(number, at)))
        return messages

    def next_at(self) -> Time | None:
        """When the next message is due, or None."""
        return self._now if self._cancels else self._senders.next_at()

    # ── the run ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def steps(self, *, check: bool) -> Iterator[SimulatedStep]:
        """The steps of the run, each made when the one before was taken."""
        setup, cost = own_setup(self._config), new_cost(self._config)
        simulator = Simulator(
            scheduler=build_scheduler(setup, build_memory(setup)),
            cost=cost,
            answers=self._answers(),
            check=check,
            jumps=always if cost.is_level and self._may_jump() else never,
        )
        return simulator.run_from(self)

    def take(self, step: SimulatedStep) -> bool:
        """Take over what a step did; whether the run goes on.

        Ends let others be sent, and enough tokens let clients cancel. What ends after the drain limit has no listener.
        """
        self._lives.add(step)
        self._now = step.ended_at
        if step.ends:
            self._count_tokens(step)
        for event in step.events:  # by time; each may let somebody be sent, which moves the limit
            if isinstance(event, Finished | Rejected) and not self._is_past_drain(event.at):
                number = event.request.request_id - 1
                self._ends[number] = event
                self._tokens.pop(number, None)
                self._senders.note_end(number, int(event.at), is_answered=self._is_answered(number, event))
                self._watch.ended += 1
        if not self._is_past_drain(step.ended_at):
            return True
        self._gave_up_at = self._senders.drain_limit()
        return False

    def sum_up(self, *, interrupted: bool) -> LoopRun:
        """Lives from what was taken so far."""
        senders, limit = self._senders, self._gave_up_at
        gave_up = INTERRUPTED if interrupted else STALLED if limit is None else DRAIN_LIMIT
        ended_at = int(self._now) if limit is None else limit
        for _ in senders.due(ended_at):
            pass  # sent while the last step was computed, which nobody took any more
        lives: list[ClientLife] = []
        for number, row in enumerate(self._lives.rows()):
            sending = senders.sending(number)
            if sending is not None:
                end = Ending(self._ends.get(number), gave_up, ended_at)
                life = simulated_life(self._schedule.planned[number], sending, row, end)
                is_early = sending.at * NS_PER_US < self._schedule.limits.warm_up_ns
                lives.append(replace(life, is_warm_up=True) if is_early else life)
        if not self._schedule.is_supply:
            lives = senders.with_unsent(lives, gave_up, ended_at * NS_PER_US)
        return LoopRun(
            lives=tuple(lives),
            began_at=0,
            stopped_at=senders.stopped_at(ended_at, interrupted=interrupted) * NS_PER_US,
            ended_at=ended_at * NS_PER_US,
            interrupted=interrupted,
            num_left=len(self._schedule.planned) - len(lives),
        )

    def _request(self, number: int, at: int) -> Request:
        return request_of(self._config, number + 1, self._records[number], at)

    def _may_jump(self) -> bool:
        """Whether nobody looks at single tokens: no client that counts them, and no memory that keeps them."""
        return not reuses_cells(self._config) and not any(item.ask.cancel_after for item in self._schedule.planned)

    def _answers(self) -> Answers:
        """What is said, as the next prompts of conversations repeat it; they are made up before the run."""
        if not reuses_cells(self._config):
            return NoAnswers()
        turns = (
            Turn(RequestId(number), item.ask.conversation, item.ask.turn, record.prompt_tokens, item.ask.max_tokens)
            for number, (item, record) in enumerate(zip(self._schedule.planned, self._records, strict=True), start=1)
        )
        return KnownAnswers(answers_in(turns) if answers_return(self._config) else {})

    def _is_past_drain(self, at: Time) -> bool:
        limit = self._senders.drain_limit()
        return limit is not None and at > limit

    def _is_answered(self, number: int, event: Finished | Rejected) -> bool:
        """Whether it was answered, at least up to the cancel that was planned."""
        is_planned = self._schedule.planned[number].ask.cancel_after is not None
        return isinstance(event, Finished) and (event.cancel_reason is None or is_planned)

    def _count_tokens(self, step: SimulatedStep) -> None:
        for row in step.plan.rows:
            number = row.request.request_id - 1
            cancel_after = self._schedule.planned[number].ask.cancel_after
            if not cancel_after or (isinstance(row, PrefillChunk) and not row.wants_logits):
                continue
            self._tokens[number] += len(step.ends)
            if self._tokens[number] == cancel_after:
                self._cancels.append(_cancel(number + 1, step.ended_at))


def _cancel(internal_id: int, at: Time) -> Cancellation:
    return Cancellation(CancelById(RequestId(internal_id), CancelReason.USER), at)


def _record(item: Planned) -> WorkloadRecord:
    """As the simulator's tables want it; its arrival is known only when it is sent."""
    ask = item.ask
    if ask.num_prompt_tokens is None:
        raise ConfigError("the simulator counts tokens; use --prompts tokens")
    return WorkloadRecord(
        request_id=ask.request_id,
        arrival_time_us=0,
        prompt_token_count=len(ask.prompt),
        max_new_tokens=ask.max_tokens,
        workload_class=WorkloadClass.CHAT,
        prompt_tokens=PackedTokens(t for t in ask.prompt if isinstance(t, int)),
        metadata=as_metadata(Notes(session_id=ask.session_id or ask.conversation, turn=ask.turn or None)),
    )
