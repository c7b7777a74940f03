"""ScriptedTarget: answers by a rule, on the clock it is given; for loops in virtual time."""

import asyncio
from collections.abc import Callable
from typing import Any

from arriero.bench.ask import Ask
from arriero.bench.loops_pace import Pace
from arriero.metrics.client_life import ClientLife, Outcome

MS = 1_000_000
S = 1_000_000_000


class ScriptedTarget:
    """A `Target`; `delay` says how long an ask takes, `outcome` how it ends."""

    def __init__(
        self,
        pace: Pace,
        delay: Callable[[Ask, int], int] = lambda _ask, _now: 0,
        outcome: Callable[[Ask], Outcome] = lambda _ask: Outcome.LENGTH,
        on_text: Callable[[str, str], None] | None = None,
    ) -> None:
        self.name, self.kind = "scripted", "scripted"
        self.asked: list[tuple[str, int]] = []
        self.prompts: dict[str, Any] = {}
        self.most_at_once = 0
        self._pace, self._delay, self._outcome = pace, delay, outcome
        self._open: dict[str, asyncio.Future[str]] = {}
        self._on_text = on_text

    async def open(self) -> None: ...

    async def ask(self, ask: Ask, intended_at: int | None) -> ClientLife:
        sent_at = self._pace.clock()
        self.asked.append((ask.request_id, sent_at))
        self.prompts[ask.request_id] = ask.prompt
        gave_up: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open[ask.request_id] = gave_up
        self.most_at_once = max(self.most_at_once, len(self._open))
        sleeper = asyncio.ensure_future(self._pace.sleep_until(sent_at + self._delay(ask, sent_at)))
        both: set[asyncio.Future[Any]] = {sleeper, gave_up}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        sleeper.cancel()
        del self._open[ask.request_id]
        now = self._pace.clock()
        outcome = Outcome.TIMEOUT if gave_up.done() else self._outcome(ask)
        if self._on_text is not None:
            self._on_text(ask.request_id, f"<{ask.request_id}>")
        return ClientLife(
            request_id=ask.request_id,
            intended_at=intended_at,
            sent_at=sent_at,
            closed_at=now,
            outcome=outcome,
            asked_tokens=ask.max_tokens,
            chunk_at=(now,) if outcome.is_normal else (),
            chunk_tokens=(ask.max_tokens,) if outcome.is_normal else (),
            num_tokens=ask.max_tokens if outcome.is_normal else None,
            error=gave_up.result() if gave_up.done() else None,
            conversation=ask.conversation,
            turn=ask.turn,
        )

    def give_up(self, reason: str) -> None:
        for each in self._open.values():
            each.set_result(reason)

    async def facts(self) -> dict[str, Any]:
        return {}

    async def close(self) -> None: ...
