"""Runs of the mixed-decode simulator that were tampered with; each must be stopped by the rule that it breaks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from arriero.core.errors import InvariantViolation
from arriero.core.events import Admitted, Event, Finished
from arriero.core.ids import SequenceId
from arriero.core.plan import PrefillChunk
from arriero.metrics.mixed_decode import MixedCost, MixedIteration, MixedPolicy, MixedRequest
from arriero.sim.mixed_checks import MixedChecks
from arriero.sim.mixed_decode import MixedSetup, mixed_steps
from arriero.sim.simulator import SimulatedStep

Steps: TypeAlias = list[SimulatedStep]

_SLOTS: Final = 2
_ROWS: Final = 16
_UNLIKE: Final = tuple(MixedRequest(number, 0.0, 6, (4, 8)[number % 2], "any") for number in range(6))
_EQUAL: Final = tuple(MixedRequest(number, 0.0, 6, 8, "all_short") for number in range(6))
_ALONE: Final = MixedIteration(
    start_ms=0.0, end_ms=1.0, prefill_rows=0, decode_rows=1, active_slots=1, decode_calls=1, cost_ms=1.0, admitted=0,
    completed=0,
)  # fmt: skip


class Tampering(NamedTuple):
    """A run, what is done to it, under which rules it is looked at, and which of them must stop it."""

    rule: str
    change: Callable[[Steps], Steps]
    ran: MixedPolicy = MixedPolicy.CONTINUOUS
    judged: MixedPolicy = MixedPolicy.CONTINUOUS
    num_slots: int = _SLOTS
    n_batch: int = _ROWS
    requests: tuple[MixedRequest, ...] = _UNLIKE


def stopped_by(tampering: Tampering) -> str | None:
    """The rule that stopped the run, or None if nothing did."""
    setup = MixedSetup(tampering.ran, _SLOTS, _ROWS, MixedCost())
    steps = [step for step in mixed_steps(setup, tampering.requests) if step.outcome is not None]
    checks = MixedChecks(
        tampering.judged, num_slots=tampering.num_slots, n_batch=tampering.n_batch, requests=tampering.requests
    )
    try:
        for step in tampering.change(steps):
            checks.step(step)
        checks.end([_ALONE])
    except InvariantViolation as violation:
        return str(violation)
    return None


def _as_it_was(steps: Steps) -> Steps:
    return steps


def _backwards(steps: Steps) -> Steps:
    first, second, *others = steps
    return [first, second._replace(began_at=first.ended_at - 1.0), *others]


def _backwards_within(steps: Steps) -> Steps:
    first, *others = steps
    return [first._replace(ended_at=first.began_at - 1.0), *others]


def _admitted_twice(steps: Steps) -> Steps:
    first, *others = steps
    again = next(event for event in first.events if isinstance(event, Admitted))
    return [first._replace(events=(*first.events, again)), *others]


def _never_admitted(steps: Steps) -> Steps:
    first, *others = steps
    return [first._replace(events=()), *others]


def _slots_swapped(steps: Steps) -> Steps:
    first, *others = steps
    rows = tuple(
        replace(row, sequence_id=SequenceId(_SLOTS - 1 - row.sequence_id))
        for row in first.plan.rows
        if isinstance(row, PrefillChunk)
    )
    return [first._replace(plan=replace(first.plan, rows=rows)), *others]


def _prefilled_twice(steps: Steps) -> Steps:
    first, *others = steps
    return [first, first._replace(events=(), began_at=first.ended_at), *others]


def _one_token_more(steps: Steps) -> Steps:
    number = _first_end(steps)
    last = steps[number]
    before = last._replace(events=_without_ends(last))
    return [*steps[:number], before, last._replace(began_at=last.ended_at), *steps[number + 1 :]]


def _ended_early(steps: Steps) -> Steps:
    first, second, *others = steps
    ends = tuple(event for event in steps[_first_end(steps)].events if isinstance(event, Finished))
    return [first, second._replace(events=(*second.events, *ends)), *others]


def _cut_off(steps: Steps) -> Steps:
    return steps[:-1]


def _first_end(steps: Steps) -> int:
    return next(number for number, step in enumerate(steps) if len(step.events) > len(_without_ends(step)))


def _without_ends(step: SimulatedStep) -> tuple[Event, ...]:
    return tuple(event for event in step.events if not isinstance(event, Finished))


TAMPERINGS: Final[Sequence[Tampering]] = (
    Tampering("time does not go back between iterations", _backwards),
    Tampering("time does not go back in an iteration", _backwards_within),
    Tampering("a request is admitted into a free slot", _admitted_twice),
    Tampering("active slots are those that have an owner", _never_admitted),
    Tampering("no more requests are active than there are slots", _as_it_was, num_slots=1),
    Tampering("a group starts when all slots are free", _as_it_was, judged=MixedPolicy.STATIC),
    Tampering("no two slots share a call", _as_it_was, judged=MixedPolicy.FIFO),
    Tampering("all slots share one call", _as_it_was, ran=MixedPolicy.FIFO),
    Tampering("no call has more rows than n_batch", _as_it_was, n_batch=5),
    Tampering("a row belongs to the owner of its slot", _slots_swapped),
    Tampering("no prompt is computed twice", _prefilled_twice),
    Tampering("nobody gets more tokens than allowed", _one_token_more),
    Tampering("a request ends with its last token", _ended_early),
    Tampering("every request completes exactly once", _cut_off),
    Tampering("equal short requests share calls", _as_it_was, requests=_EQUAL),
)
