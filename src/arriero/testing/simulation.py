"""Parts of a simulated run for tests: a linear cost, answers that count, and faults at chosen steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from arriero.core.ids import StepNumber, Time, TokenId
from arriero.core.plan import BatchPlan, Row, Sampled, StepOutcome, StepShape


@dataclass(frozen=True, slots=True)
class LinearCost:
    """A duration for the step and one for each row, in the unit of the time line."""

    base: Time
    per_decode_row: Time = 0
    per_prefill_row: Time = 0

    def step_time(self, shape: StepShape) -> Time:
        """The duration."""
        return self.base + self.per_decode_row * shape.decode_rows + self.per_prefill_row * shape.prefill_rows


def count_up(row: Row) -> TokenId:
    """The answer 0, 1, 2 ..., whatever the batch: a token is its own index, after a preemption too."""
    return row.start + row.num_rows - len(row.request.prompt)


@dataclass(frozen=True, slots=True)
class CountingAnswers:
    """Every row succeeds, and `token_of` says which token its logits give."""

    token_of: Callable[[Row], TokenId] = count_up

    def to(self, plan: BatchPlan) -> StepOutcome:
        """The outcome of one plan with rows."""
        return Sampled(tokens={row.sequence_id: self.token_of(row) for row in plan.rows if row.wants_logits})


Fault: TypeAlias = Callable[[BatchPlan], StepOutcome]
"""Says what a plan came to instead of tokens."""


@dataclass(frozen=True, slots=True)
class ScriptedAnswers:
    """Counting answers, with another outcome at some steps."""

    faults: Mapping[StepNumber, Fault]
    otherwise: CountingAnswers = field(default_factory=CountingAnswers)

    def to(self, plan: BatchPlan) -> StepOutcome:
        """The outcome of one plan with rows."""
        fault = self.faults.get(plan.step)
        return self.otherwise.to(plan) if fault is None else fault(plan)
