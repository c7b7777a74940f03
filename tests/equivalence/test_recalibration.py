"""A target in milliseconds, and costs that change on the way: live, simulated and replayed decide the same.

The clock goes by costs of its own, so that the scheduler's beliefs are wrong, as they are anywhere.
"""

import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arriero.core.errors import BadJournal, ReplayDiverged
from arriero.core.option_kinds import Threads
from arriero.costmodel.change import CostChange
from arriero.costmodel.passes import Stretch
from arriero.engine.pass_rules import rules_of
from arriero.record.journal_parts import FactorsRow, RecalibrateRow
from arriero.record.journal_reader import read_lines
from arriero.record.journal_schema import JournalRecord, StepRecord
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.step_target import StepTarget
from arriero.sim.replay import replay
from arriero.sim.simulator import Recalibration
from arriero.testing.costs import FUSED, calibrated
from arriero.testing.strategies import Pick, hypothesis_pick, pick_change
from tests.equivalence.test_live_equals_simulated import Kinds, check_equal, pick_world
from tests.equivalence.worlds import World, simulated_journal
from tests.unit.record.test_journal import sealed

WORLDS = [Kinds(reuse=True), Kinds(unified=True, reuse=True), Kinds(exact=True)]


def with_target(pick: Pick, world: World, horizon_us: int) -> World:
    """The same world with a target that bites now and then, and up to three changes of costs."""
    cost = calibrated(FUSED, rules=rules_of(world.memory.limits()))
    decode = Stretch(0, 20, 1, wants_logits=True)
    longest = cost.time([decode, Stretch(1, 0, 30, wants_logits=True)])
    target = StepTarget(limit=pick(cost.time([decode]) // 2, longest), cost=cost, least_rows=pick(3, 8))
    changes = [Recalibration(pick_change(pick), pick(0, horizon_us)) for _ in range(pick(1, 3))]
    return replace(
        world,
        options=replace(world.options, budget=replace(world.options.budget, within=target)),
        messages=sorted([*world.messages, *changes], key=lambda message: message.at),
    )


def random_world(seed: int, kinds: Kinds, count: int = 80) -> World:
    """A world of so many requests."""
    pick = random.Random(f"{seed} {kinds.name}").randint
    return with_target(pick, pick_world(pick, count, 4000 * count, kinds), 4000 * count)


@pytest.mark.parametrize("kinds", WORLDS, ids=lambda kinds: kinds.name)
@settings(max_examples=max(10, settings().max_examples // 4))
@given(data=st.data())
def test_random_workloads_give_the_same_journal_in_both_worlds(data: st.DataObject, kinds: Kinds) -> None:
    pick = hypothesis_pick(data.draw)
    horizon = pick(0, 60_000)
    check_equal(with_target(pick, pick_world(pick, pick(1, 8), horizon, kinds), horizon))


@pytest.mark.parametrize("kinds", WORLDS, ids=lambda kinds: kinds.name)
def test_many_requests_give_the_same_journal_in_both_worlds(kinds: Kinds) -> None:
    seen = b"".join(check_equal(random_world(seed, kinds)) for seed in range(2))
    # where phases are apart a step has one prompt, so nobody is sent away
    for word in ("itl_target", "recalibrate", "target", *(() if kinds.exact else ("prefill_budget",))):
        assert f'"{word}"'.encode() in seen, f"the workloads are too tame to show anything: no {word}"


# ── what a replay makes of other changes ────────────────────────────────────────────────────────────────────────────


def changed(lines: list[bytes], **values: object) -> list[bytes]:
    """The journal with another first change of costs."""
    records: list[JournalRecord] = [line.record for line in read_lines(lines)]
    for place, record in enumerate(records):
        if isinstance(record, StepRecord) and any(isinstance(each, RecalibrateRow) for each in record.messages):
            messages = tuple(
                msgspec.structs.replace(each, **values) if isinstance(each, RecalibrateRow) else each
                for each in record.messages
            )
            records[place] = msgspec.structs.replace(record, messages=messages)
            return sealed(records)
    raise AssertionError("nothing changed in this journal")


def test_another_change_of_costs_leads_to_other_decisions() -> None:
    world = random_world(1, WORLDS[0])
    same = Recalibration(CostChange(threads=Threads(1, 1)), 50_000)
    others = [message for message in world.messages if not isinstance(message, Recalibration)]
    messages = sorted([*others, same], key=lambda message: message.at)
    within = world.options.budget.within
    assert within is not None
    budget = PrefillBudget(within=replace(within, limit=3 * within.limit))  # it hardly ever bites
    lines = simulated_journal(
        replace(world, messages=messages, options=replace(world.options, budget=budget), faults={})
    )
    replay(read_lines(lines))
    with pytest.raises(ReplayDiverged, match="plan"):
        replay(read_lines(changed(lines, factors=(FactorsRow(1, 90.0, 90.0, 90.0),))))


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"factors": (FactorsRow(7, 1.0, 1.0, 1.0),)}, "at 7 threads: calibrated for 1 only"),
        ({"threads": (3, 3)}, "--threads 3: calibrated for 1 only"),
        ({"host": 0.0}, "needs factors above 0"),
    ],
)
def test_a_change_of_costs_that_cannot_have_been_is_refused(values: dict[str, object], what: str) -> None:
    lines = simulated_journal(random_world(1, WORLDS[0], 20))
    with pytest.raises(BadJournal, match=what):
        replay(read_lines(changed(lines, **values)))
