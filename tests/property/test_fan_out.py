"""A cold fan-out: several requests arrive at once with one long prefix, which is computed once, whatever goes wrong.

The first one leads and the others follow. At every step of it the leader is cancelled, fails, loses its slot or has its
memory refused; then somebody else leads, everybody else comes to their end, and nobody computes what was there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.events import Admitted, CancelById, Event, Finished, KvOp, Preempted, TrimSequence
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import BatchPlan, Deferral, NoRoom, PrefillChunk, Sampled, SequenceFailure, StepOutcome
from arriero.core.request import FinishReason, Request
from arriero.kv.cells import CellLayout
from arriero.kv.reuse import ReuseRules
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.invariants import check_scheduler
from arriero.scheduler.rules import SchedulerLimits
from arriero.testing.simulation import count_up
from arriero.testing.strategies import SchedulerSetup
from tests.property.reuse_memory import TokenMemory

NUM_REQUESTS = 8
PREFIX = 100
SUFFIX = 5
OUTPUT = 3
LEADER = RequestId(1)
WAYS = ("cancelled", "failed", "preempted", "refused")


def new_setup(*, unified: bool, slots: int, rows: int = 32, exact: bool = False) -> SchedulerSetup:
    limit = PREFIX + SUFFIX + OUTPUT
    retained = 2
    num_sequences = slots + retained
    rules = ReuseRules()
    return SchedulerSetup(
        layout=CellLayout(
            num_sequences=num_sequences,
            num_cells=limit * num_sequences if not unified else limit + 9 * (SUFFIX + OUTPUT + 8),
            sequence_limit=limit,
            unified=unified,
        ),
        limits=SchedulerLimits(num_rows=max(rows, slots), headroom_per_sequence=0),
        max_chunk=16 if exact else None,
        num_retained=retained,
        reuse=replace(rules, keeps_answers=False, min_suffix=2) if exact else rules,
        min_followed=32,
    )


SETUPS = {
    "unified": new_setup(unified=True, slots=8),
    "separate": new_setup(unified=False, slots=8),
    "one slot": new_setup(unified=False, slots=1),
    "two slots, one pool": new_setup(unified=True, slots=2),
    "fewer slots than requests": new_setup(unified=True, slots=5),
    "exact": new_setup(unified=False, slots=8, exact=True),
    "capped": replace(
        new_setup(unified=False, slots=8),
        limits=SchedulerLimits(num_rows=64, budget=PrefillBudget(9, 11), headroom_per_sequence=0),
    ),
    "sessions": replace(
        new_setup(unified=True, slots=8),
        reuse=ReuseRules(per_session=True, min_partial=32),
        layout=CellLayout(num_sequences=10, num_cells=10 * 108, sequence_limit=108, unified=True),
    ),
}
FOLLOWED = [name for name in SETUPS if name != "sessions"]
"""Where followers wait; the published rules of sessions share nothing with who runs."""


def requests(prefix: int = PREFIX, suffix: int = SUFFIX) -> list[Request]:
    return [
        Request(
            request_id=RequestId(number),
            prompt=(*range(1, prefix + 1), *(1000 * number + index for index in range(suffix))),
            max_tokens=OUTPUT,
            arrival_at=0,
            cache_scope="one",
        )
        for number in range(1, NUM_REQUESTS + 1)
    ]


@dataclass
class FanOut:
    """One run, step by step.

    Attributes:
        starts: tokens that each request found when it started, the last time.
        ends: reasons.
        prefill_rows: of all steps whose rows were computed.
    """

    setup: SchedulerSetup

    def __post_init__(self) -> None:
        self.scheduler = self.setup.new_scheduler()
        self.memory = TokenMemory(self.setup.layout.unified)
        self.starts: dict[int, int] = {}
        self.ends: dict[int, FinishReason] = {}
        self.prefill_rows = 0
        self.leader: SequenceId | None = None
        self.now = 0

    def begin(self, prompts: list[Request]) -> None:
        for request in prompts:
            self.hear(self.scheduler.submit(request, 0))

    def cancel_leader(self) -> None:
        self.hear(self.scheduler.cancel(CancelById(LEADER), self.now))

    def steps(self) -> Iterator[BatchPlan]:
        """Each plan before it is committed; the receiver may say what it came to by `outcome`."""
        while self.scheduler.has_work:
            plan = self.scheduler.plan(self.now)
            self.hear(plan.events)
            assert plan.rows or plan.wake_at is not None, "everybody waits for somebody"
            self.outcome: StepOutcome | None = None
            yield plan
            if plan.rows:
                self.commit(plan)
            check_scheduler(self.scheduler)
            self.now += 1
            assert self.now < 500, "it never ends"

    def commit(self, plan: BatchPlan) -> None:
        outcome = self.outcome
        if outcome is None:
            outcome = Sampled(tokens={row.sequence_id: count_up(row) for row in plan.rows if row.wants_logits})
        if isinstance(outcome, Sampled):
            spared = {failure.sequence_id for failure in outcome.failures} | {
                op.sequence_id for op in outcome.refused if isinstance(op, TrimSequence)
            }
            self.memory.compute(plan, set(spared))
            rows = [row for row in plan.rows if isinstance(row, PrefillChunk) and row.sequence_id not in spared]
            self.prefill_rows += sum(row.num_rows for row in rows)
        self.hear(self.scheduler.commit(outcome, self.now))

    def hear(self, events: tuple[Event, ...]) -> None:
        for event in events:
            match event:
                case Admitted(request=request, sequence_id=sequence_id, num_cached=num_cached):
                    self.starts[request.request_id] = num_cached
                    assert len(self.memory.of(sequence_id)) == num_cached
                    if request.request_id == LEADER:
                        self.leader = sequence_id
                case Preempted(request_id=request_id) if request_id == LEADER:
                    self.leader = None
                case Finished(request=request, reason=reason):
                    assert request.request_id not in self.ends
                    self.ends[request.request_id] = reason
                    self.leader = None if request.request_id == LEADER else self.leader
                case _ if isinstance(event, KvOp):
                    self.memory.apply(event)
                case _:
                    pass


def run(setup: SchedulerSetup, prompts: list[Request]) -> FanOut:
    fan_out = FanOut(setup)
    fan_out.begin(prompts)
    for _ in fan_out.steps():
        pass
    return fan_out


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_prefix_is_computed_once(name: str) -> None:
    fan_out = run(SETUPS[name], requests())
    assert fan_out.prefill_rows == PREFIX + NUM_REQUESTS * SUFFIX
    assert fan_out.starts == {number: PREFIX if number > 1 else 0 for number in range(1, NUM_REQUESTS + 1)}
    assert set(fan_out.ends.values()) == {FinishReason.LENGTH}


@given(
    prefix=st.integers(33, 120),
    suffix=st.integers(2, 9),
    slots=st.integers(1, 8),
    rows=st.integers(8, 70),
    unified=st.booleans(),
    exact=st.booleans(),
)
def test_however_long_it_is_and_wherever_chunks_end(
    prefix: int,
    suffix: int,
    slots: int,
    rows: int,
    unified: bool,  # noqa: FBT001 - a property
    exact: bool,  # noqa: FBT001 - a property
) -> None:
    setup = new_setup(unified=unified and not exact, slots=slots, rows=rows, exact=exact)
    limit = prefix + suffix + OUTPUT
    num_cells = limit * setup.layout.num_sequences
    layout = replace(setup.layout, num_cells=num_cells, sequence_limit=limit)
    fan_out = run(replace(setup, layout=layout), requests(prefix, suffix))
    assert fan_out.prefill_rows == prefix + NUM_REQUESTS * suffix
    assert set(fan_out.ends.values()) == {FinishReason.LENGTH}


def test_who_shares_less_than_a_wait_is_worth_does_not_wait() -> None:
    setup = new_setup(unified=True, slots=8, rows=512)
    layout = replace(setup.layout, num_cells=2000, sequence_limit=200)
    fan_out = FanOut(replace(setup, layout=layout))
    fan_out.begin(requests(31, 5))
    first = next(fan_out.steps())
    assert len(first.rows) == NUM_REQUESTS
    assert Deferral.PREFIX not in first.deferrals


def test_those_behind_a_follower_are_offered_a_slot() -> None:
    fan_out = FanOut(SETUPS["unified"])
    leader, follower, *_ = requests()
    other = replace(follower, request_id=RequestId(9), prompt=(7, 7, 7))
    fan_out.begin([leader, follower, other])
    first = next(fan_out.steps())
    assert first.deferrals[Deferral.PREFIX] == 1
    assert {*fan_out.starts} == {1, 9}
    assert fan_out.scheduler.snapshot().num_deferred_prefix == 1


def test_another_scope_is_not_waited_for() -> None:
    fan_out = FanOut(SETUPS["unified"])
    leader, other, nobody, *_ = requests()
    fan_out.begin([leader, replace(other, cache_scope="two"), replace(nobody, cache_scope=None)])
    first = next(fan_out.steps())
    assert Deferral.PREFIX not in first.deferrals


def end_leader(fan_out: FanOut, plan: BatchPlan, way: str) -> None:
    """Let this step come to the end of the leader, if it has a row."""
    rows = [row for row in plan.rows if row.sequence_id == fan_out.leader]
    if way == "preempted" and rows and fan_out.scheduler.snapshot().num_running > 1:
        fan_out.outcome = NoRoom()
    elif way in {"failed", "refused"} and rows:
        others = {row.sequence_id: count_up(row) for row in plan.rows if row.wants_logits and row not in rows}
        sequence_id = rows[0].sequence_id
        failures = (SequenceFailure(sequence_id, "decode_failed", "on purpose"),) if way == "failed" else ()
        refused = (TrimSequence(sequence_id, rows[0].start),) if way == "refused" else ()
        fan_out.outcome = Sampled(tokens=others, failures=failures, refused=refused)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SETUPS)
def test_whatever_becomes_of_the_leader_at_any_step_the_others_end_well(name: str, way: str) -> None:
    setup = SETUPS[name]
    num_steps = run(setup, requests()).now
    for at in range(num_steps):
        fan_out = FanOut(setup)
        fan_out.begin(requests())
        for step, plan in enumerate(fan_out.steps()):
            if step == at:
                end_leader(fan_out, plan, way)
            if step == at and way == "cancelled" and not plan.rows:
                break
            if step == at and way == "cancelled":
                fan_out.commit(plan)
                fan_out.cancel_leader()
                break
        for _ in fan_out.steps():
            pass
        expected = {FinishReason.LENGTH, FinishReason.CANCELLED, FinishReason.FAILED}
        assert fan_out.ends.keys() == set(range(1, NUM_REQUESTS + 1)), f"step {at}"
        assert set(fan_out.ends.values()) <= expected
        others = {reason for number, reason in fan_out.ends.items() if number != LEADER}
        assert others == {FinishReason.LENGTH}, f"step {at}"
        if name != "sessions":
            # At worst what the leader had computed is computed once more, and the rows of its own answer.
            again = PREFIX + SUFFIX + OUTPUT
            assert fan_out.prefill_rows <= PREFIX + NUM_REQUESTS * SUFFIX + again, f"step {at}"


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_a_cancelled_leader_computed_is_not_computed_again(name: str) -> None:
    fan_out = FanOut(SETUPS[name])
    fan_out.begin(requests())
    computed = 0
    for step, plan in enumerate(fan_out.steps()):
        computed += plan.shape.prefill_rows
        if step == 1:
            fan_out.commit(plan)
            fan_out.cancel_leader()
            break
    assert 0 < computed < PREFIX
    for _ in fan_out.steps():
        pass
    assert fan_out.prefill_rows == PREFIX + (NUM_REQUESTS - 1) * SUFFIX
    assert fan_out.ends[LEADER] is FinishReason.CANCELLED
