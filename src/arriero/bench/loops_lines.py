"""Lines: requests with what follows them, and the lives they leave."""

import asyncio
from dataclasses import replace
from typing import Final

from arriero.bench.loops_answers import Answers
from arriero.bench.loops_pace import Pace
from arriero.bench.loops_tasks import TaskSet
from arriero.bench.loops_watch import RunWatch
from arriero.bench.schedule import Loop, Planned, Schedule
from arriero.bench.target import Target
from arriero.metrics.client_life import ClientLife, Outcome

AFTER_STOP: Final = "after_stop"
CONVERSATION_BROKE: Final = "previous_turn_failed"
DRAIN_LIMIT: Final = "drain_limit"
INTERRUPTED: Final = "interrupted"
BROKEN: Final = "run_broken"


class Lines:
    """All lines of a run.

    A line is one request and then, one at a time, whatever follows it; each line is a task, so lines never wait for
    one another.
    """

    def __init__(
        self, target: Target, schedule: Schedule, pace: Pace, watch: RunWatch, answers: Answers | None
    ) -> None:
        self.schedule = schedule
        self.pace = pace
        self.watch = watch
        self.target = target
        self.lives: dict[str, ClientLife] = {}
        self.began_at = 0
        self.last_due = 0
        self.over_for: str | None = None  # why nothing more is sent or waited for
        self._followers = schedule.followers()
        self._answers = answers
        self.tasks = TaskSet(lambda: self.give_up(BROKEN))
        self._sleepers: set[asyncio.Future[None]] = set()

    @property
    def ends_at(self) -> int | None:
        """When the time for sending is over."""
        duration = self.schedule.limits.duration_ns
        return None if duration is None else self.began_at + duration

    async def wait_until(self, at: int) -> bool:
        """Whether the moment came before the run was over."""
        if self.over_for is not None:
            return False
        sleeper = asyncio.ensure_future(self.pace.sleep_until(at))
        self._sleepers.add(sleeper)
        await asyncio.wait({sleeper})
        self._sleepers.discard(sleeper)
        return not sleeper.cancelled()

    async def line(self, item: Planned, due: int | None) -> None:
        """Ask, and then whatever follows; `due` is None where nothing is intended."""
        while True:
            life = await self._ask(item, due)
            followers = self._followers.get(item.ask.request_id, [])
            for branch in followers[1:]:
                self.tasks.spawn(self._follow(branch, life))
            if not followers:
                return
            item, due = followers[0], self._due_after(followers[0], life)
            if not await self._may_follow(item, life, due):
                return
            due = due if self.schedule.loop is Loop.OPEN else None

    def settle(self, item: Planned, due: int | None, error: str) -> None:
        """A request and all that would have followed it are never sent; what is left of a supply was never intended.

        In an open loop each would have been due its think time after the one before, had that one taken no time.
        """
        if self.schedule.is_supply:
            return
        pending = [(item, due)]
        while pending:
            each, at = pending.pop()
            life = never_sent(each, at, error)
            self.lives[each.ask.request_id] = life
            self.watch.note_end(life)
            followers = self._followers.get(each.ask.request_id, [])
            pending.extend((follower, None if at is None else at + follower.think_ns) for follower in followers)

    def give_up(self, reason: str) -> None:
        """End whatever is open or sleeping."""
        self.over_for = reason
        for sleeper in tuple(self._sleepers):
            sleeper.cancel()
        self.target.give_up(reason)

    async def _follow(self, item: Planned, life: ClientLife) -> None:
        due = self._due_after(item, life)
        if await self._may_follow(item, life, due):
            await self.line(item, due if self.schedule.loop is Loop.OPEN else None)

    def _due_after(self, item: Planned, life: ClientLife) -> int:
        ended_at = self.pace.clock() if life.closed_at is None else life.closed_at
        return ended_at + item.think_ns

    async def _may_follow(self, item: Planned, life: ClientLife, due: int) -> bool:
        """Wait for its time; whether it may be sent. One that may not has its life then."""
        error = why_not(item, life, due, self.ends_at)
        if error is None:
            self.last_due = max(self.last_due, due)
            if await self.wait_until(due):
                return True
            error = self.over_for or INTERRUPTED
            due = max(due, self.pace.clock() + 1)  # it was not due before the end came
        self.settle(item, due if self.schedule.loop is Loop.OPEN else None, error)
        return False

    async def _ask(self, item: Planned, due: int | None) -> ClientLife:
        ask = item.ask if self._answers is None else self._answers.prepare(item)
        now = self.pace.clock()
        self.last_due = max(self.last_due, now if due is None else due)
        if self.over_for is not None:
            life = never_sent(item, due, self.over_for)
        else:
            self.watch.note_sent(0 if due is None else now - due)
            life = await self.target.ask(ask, due)
            if due is None and life.sent_at is not None:
                self.last_due = max(self.last_due, life.sent_at)
            if life.error == INTERRUPTED:  # the run gave up, not the patience of a client
                life = replace(life, outcome=Outcome.CANCELLED_BY_CLIENT)
        moment = now if due is None else due
        if item.is_warm_up or moment - self.began_at < self.schedule.limits.warm_up_ns:
            life = replace(life, is_warm_up=True)
        self.lives[ask.request_id] = life
        self.watch.note_end(life)
        return life


def why_not(item: Planned, before: ClientLife, due: int, ends_at: int | None) -> str | None:
    """Why a request may not follow the one before it, or None; the three times are on one clock.

    A turn needs the answer that it continues; a planned cancel leaves part of it.
    """
    if before.outcome is Outcome.NOT_SENT:
        return before.error or CONVERSATION_BROKE
    is_turn = item.ask.conversation is not None and item.ask.conversation == before.conversation
    if is_turn and not before.outcome.is_normal and before.outcome is not Outcome.CANCELLED_BY_CLIENT:
        return CONVERSATION_BROKE
    return AFTER_STOP if ends_at is not None and due > ends_at else None


def never_sent(item: Planned, due: int | None, error: str) -> ClientLife:
    """The life of a request that was not sent; `error` says why."""
    return ClientLife(
        request_id=item.ask.request_id,
        intended_at=due,
        sent_at=None,
        closed_at=None,
        outcome=Outcome.NOT_SENT,
        asked_tokens=item.ask.max_tokens,
        error=error,
        conversation=item.ask.conversation,
        turn=item.ask.turn,
        is_warm_up=item.is_warm_up,
    )
