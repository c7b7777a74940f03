"""Random nouns of the scheduler for property tests, small enough that a failing example can be read.

Everything is made from one function, `Pick`, which hypothesis and a seeded generator can both play: a state machine
and a long run draw from the same world. A `SchedulerSetup` is a whole scheduler as a value: it prints, and builds a
fresh one each time it is asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from hypothesis import strategies as st

from arriero.core.events import DropSequence, KvOp, TrimSequence, harmed_sequence
from arriero.core.ids import Epoch, RequestId, SequenceId, Time, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import BatchPlan, Failed, Interrupted, NoRoom, Sampled, SequenceFailure, StepOutcome
from arriero.core.request import Request
from arriero.costmodel.change import CostChange, GroupFactors
from arriero.costmodel.passes import PassRules
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.reuse import ReuseRules
from arriero.kv.sequence_ids import LowestFirst, PooledIds
from arriero.scheduler.admission import AtMost, Continuous
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.holes import Closed, Holes
from arriero.scheduler.planners import DecodeFirst, PhasesApart
from arriero.scheduler.policies import FirstComeFirstServed, Policy
from arriero.scheduler.preemption import SwapRule
from arriero.scheduler.progress import Progress
from arriero.scheduler.rules import SchedulerLimits, SchedulerRules
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Following, InOrder, ReuseFirst, Starts
from arriero.scheduler.step_target import StepTarget
from arriero.testing.costs import FUSED, calibrated

Pick: TypeAlias = Callable[[int, int], int]
"""A number from the first to the second, both included; towards the first when an example is made simpler."""

NUM_TOKENS = 8
"""Token ids are drawn from 0 ... 7, so that end tokens come up often."""

END_TOKENS = frozenset({0, 1})


class LastComeFirstServed(FirstComeFirstServed):
    """The opposite of the shipped policy in both respects: a scheduler must obey its policy, whatever it says."""

    def rank(self, request: Request, arrival_number: int) -> tuple[int | float, ...]:
        """The latest arrival goes first."""
        del request
        return (-arrival_number,)

    def victim(self, running: Sequence[Progress]) -> Progress:
        """The earliest admitted yields."""
        return running[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSetup:
    """Everything that a scheduler is built from.

    Attributes:
        num_preloaded: sequences set aside for preloaded requests, with `PooledIds`; None takes `LowestFirst`.
        reuse_completed: as in `PooledIds`.
        max_chunk: the micro-batch of `PhasesApart`; None takes `DecodeFirst`.
        reversed_policy: `LastComeFirstServed` instead of the shipped policy.
        policy: another policy than these two.
        num_retained: sequence ids on which nobody runs.
        reuse: with rules, followers wait or continuations start first, as they say; None: no prefix is reused.
        min_followed: rows that must be saved before a request waits for another one's prefix.
        holes: when a running request moves to a lower id.
        swap: whether what a request has computed is kept when it yields; None: never.
        swap_tokens: room for that.
    """

    layout: CellLayout
    limits: SchedulerLimits
    num_preloaded: int | None = None
    reuse_completed: bool = True
    max_chunk: int | None = None
    reversed_policy: bool = False
    policy: Callable[[], Policy] | None = None
    num_retained: int = 0
    reuse: ReuseRules | None = None
    min_followed: int = 1
    holes: Holes | None = None
    swap: SwapRule | None = None
    swap_tokens: int = 0

    @property
    def num_running(self) -> int:
        """Requests that run at once, at most."""
        return self.layout.num_sequences - self.num_retained

    def new_ids(self) -> LowestFirst | PooledIds:
        """A fresh supply of sequence ids."""
        num_sequences = self.layout.num_sequences
        if self.num_preloaded is None:
            return LowestFirst(num_sequences)
        return PooledIds(num_sequences, num_preloaded=self.num_preloaded, reuse_completed=self.reuse_completed)

    def new_scheduler(self) -> Scheduler:
        """A fresh scheduler."""
        usual = LastComeFirstServed if self.reversed_policy else FirstComeFirstServed
        starts = self._new_starts()
        return Scheduler(
            kv=CellManager(self.layout, self.new_ids(), reuse=self.reuse, swap_tokens=self.swap_tokens),
            planner=DecodeFirst(starts)
            if self.max_chunk is None
            else PhasesApart(max_chunk=self.max_chunk, starts=starts),
            policy=(self.policy or usual)(),
            limits=self.limits,
            rules=SchedulerRules(
                start=AtMost(self.num_running) if self.num_retained else Continuous(),
                reuse=self.reuse,
                holes=self.holes,
                swap=self.swap,
            ),
        )

    def _new_starts(self) -> Starts:
        if self.reuse is None:
            return InOrder()
        return ReuseFirst(2) if self.reuse.per_session else Following(min_rows=self.min_followed, max_followers=4)


def hypothesis_pick(draw: Callable[[st.SearchStrategy[int]], int]) -> Pick:
    """A `Pick` that hypothesis plays."""
    return lambda low, high: draw(st.integers(low, high))


def pick_layout(pick: Pick) -> CellLayout:
    """Both KV layouts; a unified pool is so small that its sequences get in each other's way."""
    num_sequences, sequence_limit = pick(1, 5), pick(4, 32)
    whole = num_sequences * sequence_limit
    unified = bool(pick(0, 1))
    return CellLayout(
        num_sequences=num_sequences,
        num_cells=pick(sequence_limit, min(whole, 2 * sequence_limit)) if unified else whole,
        sequence_limit=sequence_limit,
        unified=unified,
    )


def pick_swap_rule(pick: Pick) -> SwapRule:
    """Rules that swap always, mostly or seldom; whole numbers, so that they can be compared exactly."""
    return SwapRule(row_time=pick(1, 3), answer_row_time=pick(1, 6), token_time=pick(0, 1), swap_time=pick(0, 6))


def pick_setup(pick: Pick) -> SchedulerSetup:
    """Every shipped planner, layout and supply of ids, with random caps."""
    layout = pick_layout(pick)
    num_sequences = layout.num_sequences
    budget = PrefillBudget(per_sequence=pick(0, 8) or None, per_step=pick(0, 8) or None)
    return SchedulerSetup(
        layout=layout,
        limits=SchedulerLimits(
            num_rows=pick(num_sequences, num_sequences + 12), budget=budget, headroom_per_sequence=pick(0, 2)
        ),
        num_preloaded=pick(0, num_sequences) if pick(0, 1) else None,
        reuse_completed=bool(pick(0, 1)),
        max_chunk=pick(3, 8) if pick(0, 1) else None,
        reversed_policy=pick(0, 3) == 3,
        swap=pick_swap_rule(pick) if pick(0, 2) else None,
        swap_tokens=pick(0, 40),
    )


def pick_reuse(pick: Pick, *, exact: bool) -> ReuseRules:
    """Any rules, with so little room that runs push each other out."""
    return ReuseRules(
        per_session=pick(0, 3) == 3,
        partial=pick(0, 4) > 0,
        min_partial=pick(1, 4),
        regenerate=pick(0, 3) > 0,
        keeps_answers=not exact and pick(0, 3) > 0,
        min_suffix=2 if exact else pick(1, 2),
        max_retained=pick(0, 3) if pick(0, 3) == 3 else None,
        max_age=pick(1, 40) if pick(0, 3) == 3 else None,
        host_tokens=pick(4, 60) if pick(0, 1) else 0,
        min_restored=pick(1, 4),
        follows=pick(0, 4) > 0,
    )


def pick_target(pick: Pick, layout: CellLayout) -> StepTarget | None:
    """None, or a target that cuts prompts to anything from their least rows to all that they are."""
    if not pick(0, 2):
        return None
    rules = PassRules(micro_batch=pick(3, 16), unified=layout.unified, stream_cells=layout.sequence_limit)
    cost = calibrated(FUSED, rules=rules, spread=pick(0, 2) / 10)
    return StepTarget(limit=pick(4_000, 60_000), cost=cost, least_rows=pick(3, 6))


def pick_change(pick: Pick) -> CostChange:
    """Anything from half of the calibrated costs to twice as much, or as they were."""
    factors = [2.0 ** (pick(-10, 10) / 10) for _ in range(4)]
    return CostChange(
        threads=Threads(1, 1),
        factors=(GroupFactors(1, *factors[:3]),) if pick(0, 4) else (),
        host=factors[3],
        spread=pick(0, 20) / 100,
    )


def pick_reuse_setup(pick: Pick) -> SchedulerSetup:
    """As `pick_setup`, with prefix reuse by any rules, ids for retained runs, closed holes and a target."""
    setup = pick_setup(pick)
    num_retained = pick(0, 3)
    is_separate = not setup.layout.unified
    num_sequences = setup.layout.num_sequences + num_retained
    cells = num_sequences * setup.layout.sequence_limit if is_separate else setup.layout.num_cells
    return replace(
        setup,
        layout=replace(setup.layout, num_sequences=num_sequences, num_cells=cells),
        num_preloaded=None,
        num_retained=num_retained,
        reuse=pick_reuse(pick, exact=setup.max_chunk is not None),
        min_followed=pick(1, 6),
        holes=Closed(token_cost=0, move_cost=pick(0, 4000)) if is_separate and pick(0, 1) else None,
        limits=replace(setup.limits, budget=replace(setup.limits.budget, within=pick_target(pick, setup.layout))),
    )


SCOPES: Final = ("a", "a", "b", None)


def pick_prompt(pick: Pick, earlier: Sequence[Sequence[TokenId]], longest: int) -> tuple[TokenId, ...]:
    """Fresh tokens, mostly after the beginning of something earlier, or after all of it."""
    begin: tuple[TokenId, ...] = ()
    if earlier and pick(0, 3):
        before = tuple(earlier[pick(0, len(earlier) - 1)])
        begin = before[: pick(0, len(before))] if pick(0, 2) else before
    return (begin + tuple(pick(0, NUM_TOKENS - 1) for _ in range(pick(0 if begin else 1, 6))))[:longest]


def pick_request(
    pick: Pick,
    *,
    request_id: int,
    epoch: int,
    arrival_at: Time,
    preloaded: bool = False,
    prompt: tuple[TokenId, ...] | None = None,
    cache_scope: str | None = None,
) -> Request:
    """A request, sometimes one that fits nowhere, with end tokens or without, with a deadline or without."""
    return Request(
        request_id=RequestId(request_id),
        prompt=tuple(pick(0, NUM_TOKENS - 1) for _ in range(pick(0, 9))) if prompt is None else prompt,
        max_tokens=pick(0, 24),
        arrival_at=arrival_at,
        epoch=Epoch(epoch),
        end_tokens=END_TOKENS if pick(0, 2) == 2 else frozenset(),
        min_tokens=pick(0, 3),
        expires_at=arrival_at + pick(0, 30) if pick(0, 4) == 4 else None,
        preloaded=preloaded,
        cache_scope=cache_scope,
    )


def pick_outcome(pick: Pick, plan: BatchPlan, num_sequences: int) -> StepOutcome:
    """Anything that a step may come to: mostly tokens, at times a failure of a few, of all, or of memory."""
    refused: tuple[KvOp, ...] = ()
    if pick(0, 79) == 79:
        sequence_id = SequenceId(pick(0, num_sequences - 1))
        refused = (DropSequence(sequence_id) if pick(0, 7) == 7 else TrimSequence(sequence_id, 0),)
    harmed = {harmed_sequence(op) for op in refused}
    planned = [row for row in plan.rows if row.sequence_id not in harmed]
    kind = pick(0, 59)
    if kind == 59:
        return NoRoom(refused=refused)
    if kind == 58:
        return Interrupted(refused=refused)
    if kind == 57 and pick(0, 2) == 2:
        return Failed(failures=(), refused=tuple(TrimSequence(row.sequence_id, row.start) for row in plan.rows))
    if kind == 57:
        failures = tuple(SequenceFailure(row.sequence_id, "decode_failed", "picked") for row in planned)
        return Failed(failures=failures, refused=refused)
    culprits = [planned[pick(0, len(planned) - 1)]] if planned and kind == 56 else []
    return Sampled(
        tokens={
            row.sequence_id: pick(0, NUM_TOKENS - 1) for row in planned if row.wants_logits and row not in culprits
        },
        failures=tuple(SequenceFailure(row.sequence_id, "sampler_failed", "picked") for row in culprits),
        refused=refused,
    )


@st.composite
def setups(draw: st.DrawFn) -> SchedulerSetup:
    """Setups that hypothesis draws."""
    return pick_setup(hypothesis_pick(draw))


@st.composite
def reuse_setups(draw: st.DrawFn) -> SchedulerSetup:
    """Setups with prefix reuse that hypothesis draws."""
    return pick_reuse_setup(hypothesis_pick(draw))
