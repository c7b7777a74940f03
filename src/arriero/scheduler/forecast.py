"""Forecast: when a newcomer would start, and when its answer would be complete.

    wait     the prompts ahead of it are computed, and answers end until a slot is free
    prefill  its own prompt is computed
    decode   a token in each step, beside those that run then

Refusals tell it as the time to come back, and a deadline that cannot be met is refused early. It is an estimate from
counts alone, and where it does not know it is optimistic: prompts under way are taken to be computed, as much of a
prompt is taken to be cached as was lately, and an answer to be no longer than answers were. So what it calls late
would be late, up to the error of these averages. No admission that a journal repeats depends on it.
"""

from dataclasses import dataclass
from typing import Protocol

from arriero.core.ids import Time
from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import Stretch
from arriero.scheduler.backlog import Ahead


class Pace(Protocol):
    """How fast this machine computes."""

    def prompt(self, num_tokens: int) -> float:
        """Time for so many prompt tokens, of one or of several."""
        ...

    def step(self, num_decoding: int) -> float:
        """Time of a step that gives each of so many one token."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedPace:
    """By a cost profile.

    Attributes:
        cost: of the machine.
        rows: rows of one step.
        context: positions of a sequence that decodes, taken for all.
    """

    cost: CalibratedCost
    rows: int
    context: int

    def prompt(self, num_tokens: int) -> float:
        """In steps as full as they can be, each at the begin of a prompt."""
        full, rest = divmod(num_tokens, self.rows)
        time = full * self.cost.time([Stretch(0, 0, self.rows, wants_logits=False)]) if full else 0
        return float(time + (self.cost.time([Stretch(0, 0, rest, wants_logits=True)]) if rest else 0))

    def step(self, num_decoding: int) -> float:
        """Sequences with consecutive ids."""
        rows = [Stretch(number, self.context, 1, wants_logits=True) for number in range(num_decoding)]
        return float(self.cost.time(rows)) if rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a newcomer meets.

    Attributes:
        sequences: requests that run at once.
        running: those that do.
        ahead: those that wait and go first.
        answer_tokens: of an answer, on average.
        computed_share: of prompts, on average; the rest comes from prefixes that were computed before.
    """

    sequences: int
    running: int
    ahead: Ahead
    answer_tokens: float
    computed_share: float = 1.0

    @property
    def company(self) -> int:
        """Sequences beside which a newcomer decodes, itself included."""
        return min(self.sequences, self.running + self.ahead.requests + 1)

    def computed(self, prompt_tokens: int) -> int:
        """Tokens of prompts that have to be computed, rounded down."""
        return int(prompt_tokens * self.computed_share)


def time_to_start(load: Load, pace: Pace) -> Time:
    """Until a newcomer takes a slot: whole units of the pace's time line."""
    num_missing = max(0, load.running + load.ahead.requests + 1 - load.sequences)  # answers that have to end before
    steps = num_missing * load.answer_tokens / load.sequences
    return round(pace.prompt(load.computed(load.ahead.tokens)) + steps * pace.step(load.company))


def time_to_answer(load: Load, pace: Pace, prompt_tokens: int, max_tokens: int) -> Time:
    """Until its answer is complete, if it is as long as answers were, or as `max_tokens` allows if that is less."""
    answer_tokens = min(float(max_tokens), load.answer_tokens)
    rest = max(0.0, answer_tokens - 1) * pace.step(load.company)
    return time_to_start(load, pace) + round(pace.prompt(load.computed(prompt_tokens)) + rest)
