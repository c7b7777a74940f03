"""Outlook: what clients are told about the time to come: when to try again, and that a deadline cannot be met.

By the cost profile if there is one, else by what was served lately; before anything was served nothing is foreseen.
"""

import math
from typing import Final

from arriero.core.choices import PolicyWord
from arriero.core.errors import DeadlineHopeless
from arriero.core.ids import Time
from arriero.engine.engine import Engine
from arriero.http.metrics import Metrics
from arriero.scheduler.backlog import Ahead
from arriero.scheduler.forecast import CalibratedPace, Load, Pace, time_to_answer, time_to_start
from arriero.scheduler.served_lately import ServedLately

SOONEST_S: Final = 1
LATEST_S: Final = 120
"""Common clients do not repeat a request at all if they are told to wait for longer."""


class Outlook:
    """Looks at one engine; never waits for it."""

    def __init__(self, engine: Engine, metrics: Metrics | None, policy: str) -> None:
        """Nothing is computed before somebody asks.

        Args:
            engine: whose door is looked at; it has the cost profile, if there is one.
            metrics: knows what was served; None: nothing is foreseen without a profile.
            policy: its word or class; it says who goes before a newcomer.
        """
        self._engine = engine
        self._metrics = metrics
        self._policy = policy

    def retry_after_s(self) -> int:
        """Seconds until those who wait now have started, within what clients obey."""
        served = self._served()
        pace = self._pace(served)
        if pace is None:
            return SOONEST_S
        seconds = math.ceil(time_to_start(self._load(served, self._engine.places.ahead()), pace) / 1e6)
        return min(LATEST_S, max(SOONEST_S, seconds))

    def check_deadline(
        self, prompt_tokens: int, max_tokens: int, *, arrival_at: Time, deadline_ms: int, num_own: int = 1
    ) -> None:
        """Refuse what would be late even if all goes well.

        Args:
            prompt_tokens: its length.
            max_tokens: of the answer.
            arrival_at: from when on the deadline counts, on the engine's clock.
            deadline_ms: when the whole answer is wanted.
            num_own: places that its request has taken, none of them weighed yet.

        Raises:
            DeadlineHopeless: names both times.
        """
        served = self._served()
        pace = self._pace(served)
        if pace is None:
            return
        now, deadline_at = self._engine.now(), arrival_at + deadline_ms * 1000
        load = self._load(served, self._ahead(deadline_at, num_own))
        done_at = now + time_to_answer(load, pace, prompt_tokens, max_tokens)
        if done_at > deadline_at:
            takes_ms = math.ceil((done_at - arrival_at) / 1000)
            message = (
                f"the answer is expected {takes_ms} ms after its request and is wanted after {deadline_ms} ms; "
                f"allow more time, ask for fewer tokens, or try again later"
            )
            raise DeadlineHopeless(message, retry_after_s=self.retry_after_s())

    def _served(self) -> ServedLately:
        return ServedLately() if self._metrics is None else self._metrics.served

    def _pace(self, served: ServedLately) -> Pace | None:
        if (cost := self._engine.cost) is None:
            return served.pace
        limits = self._engine.limits
        context = min(limits.sequence_limit - 1, round(served.prompt_tokens + served.answer_tokens / 2))
        return CalibratedPace(cost=cost, rows=limits.num_rows, context=max(0, context))

    def _ahead(self, deadline_at: Time, num_own: int) -> Ahead:
        """Who certainly goes first: what other policies will do is not known here, so there it is nobody."""
        places = self._engine.places
        match self._policy:
            case PolicyWord.FCFS:
                waiting = places.ahead()
                return Ahead(max(0, waiting.requests - num_own), waiting.tokens)
            case PolicyWord.DEADLINE:
                return places.ahead(deadline_at)
            case _:
                return Ahead()

    def _load(self, served: ServedLately, ahead: Ahead) -> Load:
        places = self._engine.places
        counts = places.counts
        return Load(
            sequences=places.limits.sequences,
            running=counts.in_flight - counts.waiting,
            ahead=ahead,
            answer_tokens=served.answer_tokens,
            computed_share=served.computed_share,
        )
