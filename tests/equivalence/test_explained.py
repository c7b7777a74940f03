"""The same workload is explained alike by the live engine, by its journal and by the simulator, and nothing is missing.

Every part is there and none is negative: together they are the time from arrival to end, exactly, and so are the names
and the gaps.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arriero.core.errors import ReplayDiverged
from arriero.core.events import Event, Finished, Queued, Rejected, TokenEmitted
from arriero.core.ids import Time
from arriero.engine.explain_book import ExplainBook, tell_rest, tell_step
from arriero.engine.handle import Result
from arriero.engine.journal import describe
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.metrics.explain import Explainer
from arriero.metrics.explain_parts import PARTS, Basis, Explanation, Part, State
from arriero.metrics.explain_shares import Shares
from arriero.record.journal import chained_crc, encode_record
from arriero.record.journal_reader import read_lines
from arriero.record.journal_schema import StepRecord as StepLine
from arriero.scheduler.preemption import SwapRule
from arriero.sim.composition import build_scheduler
from arriero.sim.explained import explained, shape_time
from arriero.sim.replay import replay
from arriero.sim.simulator import Simulator
from tests.equivalence.test_live_equals_simulated import KINDS, WORLDS, Kinds, pick_world
from tests.equivalence.worlds import COST, ScriptAnswers, World, live_journal, simulated_journal
from tests.unit.engine.journals import explained as explained_journal

HOST = 90
NOT_IN_TIME_THAT_IS_COMPUTED = {Part.HOST, Part.SWAP}


def new_shares(basis: Basis) -> Shares:
    return Shares(shape_time(COST) if basis is Basis.COST else None)


class Listener:
    """An observer that has every request explained, and collects the events."""

    def __init__(self, basis: Basis) -> None:
        self.told: list[Explanation] = []
        self.events: list[Event] = []
        self._explainer = Explainer(self.told.append, new_shares(basis))

    def on_start(self, at: Time) -> None:
        pass

    def on_step(self, record: StepRecord) -> None:
        self.events += record.events
        tell_step(self._explainer, record)

    def on_end(self, result: Result) -> None:
        pass

    def on_close(self, summary: EngineSummary) -> None:
        self.events += summary.events
        tell_rest(self._explainer, summary)
        self._explainer.cut()


def from_journal(lines: Sequence[bytes], basis: Basis) -> list[Explanation]:
    return list(explained_journal(lines, new_shares(basis)).requests)


def simulated(world: World, basis: Basis) -> list[Explanation]:
    setup = describe(world.memory.limits(), world.options, world.num_preloaded)
    simulator = Simulator(scheduler=build_scheduler(setup), cost=COST, answers=ScriptAnswers(world))
    told: list[Explanation] = []
    for _ in explained(simulator.run(world.messages), Explainer(told.append, new_shares(basis))):
        pass
    return told


def check_sums(each: Explanation) -> None:
    """Nothing is negative, and everything adds up to the microsecond."""
    for split in (each.until_first, each.between, each.closing):
        assert min(split.values) >= 0
    assert each.split.total == each.total == each.moments.until - each.moments.arrival
    assert sum(share.time for share in each.others) == each.split.of(Part.OTHERS_PREFILL)
    assert sum(share.time for share in each.leaders) == each.split.of(Part.PREFIX)
    assert all(share.time > 0 and share.request_id != each.request_id for share in (*each.others, *each.leaders))
    for gap in each.gaps:
        assert min(gap.split.values) >= 0
        assert sum(share.time for share in gap.others) == gap.split.of(Part.OTHERS_PREFILL)
        assert 0 < gap.index < each.num_tokens


def check_moments(told: Sequence[Explanation], events: Sequence[Event]) -> None:
    """Each explanation says of tokens and ends what the events say, in the order of the ends."""
    tokens: dict[int, list[Time]] = {}
    ended = iter(told)
    for event in events:
        match event:
            case Queued(request=request):
                tokens[request.request_id] = []
            case TokenEmitted(request_id=request_id, at=at):
                tokens[request_id].append(at)
            case Rejected(request=request):
                each = next(ended)
                assert (each.request_id, each.ending.state) == (request.request_id, State.REFUSED)
            case Finished(request=request, at=at):
                each = next(ended)
                assert (each.request_id, each.ending.state.value) == (request.request_id, event.reason.value)
                assert (each.moments.arrival, each.moments.until) == (request.arrival_at, at)
                check_tokens(each, tokens.pop(request.request_id), at)
            case _:
                pass


def check_tokens(each: Explanation, token_at: Sequence[Time], ended_at: Time) -> None:
    assert each.num_tokens == len(token_at)
    last = token_at[-1] if token_at else ended_at
    assert each.e2e == last - each.moments.arrival
    assert each.ttft == (token_at[0] - each.moments.arrival if token_at else None)
    for gap in each.gaps:
        assert gap.at == token_at[gap.index]
        assert gap.split.total == token_at[gap.index] - token_at[gap.index - 1]


def check_world(world: World, basis: Basis, host: int) -> list[Explanation]:
    """All three tell the same; where the host takes time too, engine and journal do. Returns what was told."""
    listener = Listener(basis)
    lines = live_journal(world, [listener], host=host)
    assert listener.told == from_journal(lines, basis)
    if not host:
        assert listener.told == simulated(world, basis)
    check_moments(listener.told, listener.events)
    for each in listener.told:
        check_sums(each)
    return listener.told


@pytest.mark.parametrize("kinds", WORLDS, ids=lambda kinds: kinds.name)
@settings(max_examples=settings().max_examples // 2)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_workloads_are_explained_alike_and_to_the_microsecond(seed: int, kinds: Kinds) -> None:
    pick = random.Random(seed).randint
    basis = Basis.COST if pick(0, 1) else Basis.ROWS
    check_world(pick_world(pick, pick(1, 12), pick(0, 100_000), kinds), basis, pick(0, 1) * HOST)


def following(world: World) -> World:
    """The same with requests that wait for prefixes, if any are reused."""
    reuse = world.options.reuse
    if reuse is None:
        return world
    return replace(world, options=replace(world.options, reuse=replace(reuse, per_session=False, follows=True)))


def test_every_part_and_every_end_comes_up_in_a_few_large_workloads() -> None:
    seen: dict[Part, int] = dict.fromkeys(PARTS, 0)
    ends: set[State] = set()
    gaps = 0
    for number, kinds in enumerate(WORLDS):
        world = pick_world(random.Random(number).randint, 120, 500_000, kinds)
        options = replace(world.options, swap=SwapRule(row_time=1, answer_row_time=1), swap_tokens=number % 2 * 1_000)
        faults = {20 + 9 * index: KINDS[index % 4] for index in range(16)}
        world = following(replace(world, options=options, faults=faults))
        for each in check_world(world, list(Basis)[number // 2 % 2], number % 2 * HOST):
            ends.add(each.ending.state)
            gaps += len(each.gaps)
            for part in PARTS:
                seen[part] += each.split.of(part)
    assert [part.value for part in PARTS if not seen[part]] == []
    assert ends >= {State.STOP, State.LENGTH, State.CANCELLED, State.FAILED, State.REFUSED}
    assert gaps > 100


def test_time_that_is_all_computed_has_no_host() -> None:
    world = pick_world(random.Random(5).randint, 40, 200_000, WORLDS[0])
    for each in simulated(world, Basis.ROWS):
        assert not any(each.split.of(part) for part in NOT_IN_TIME_THAT_IS_COMPUTED)


def test_the_book_tells_what_the_fold_told_last_of_each_number() -> None:
    world = pick_world(random.Random(3).randint, 60, 300_000, WORLDS[3])
    listener, book = Listener(Basis.ROWS), ExplainBook()
    live_journal(world, [listener, book])
    last = {each.request_id: each for each in listener.told}
    assert len(last) > 20
    assert {number: book.find(number) for number in last} == last


def with_followers(lines: Sequence[bytes], named: tuple[int, ...]) -> list[bytes]:
    """The same journal, in which every plan that names followers names these instead."""
    changed: list[bytes] = []
    crc = 0
    for line in read_lines(lines):
        record = line.record
        if isinstance(record, StepLine) and record.plan.followers:
            record = msgspec.structs.replace(record, plan=msgspec.structs.replace(record.plan, followers=named))
        crc = chained_crc(record, crc)
        changed.append(encode_record(msgspec.structs.replace(record, crc=crc)))
    return changed


def test_a_journal_of_before_followers_were_named_is_replayed_and_tells_of_a_queue() -> None:
    worlds = (following(pick_world(random.Random(seed).randint, 60, 200_000, WORLDS[3])) for seed in range(50))
    lines = next(lines for lines in map(simulated_journal, worlds) if b'"followers"' in b"".join(lines))
    old = with_followers(lines, ())
    assert replay(read_lines(old)).runs == 1
    now, before = from_journal(lines, Basis.ROWS), from_journal(old, Basis.ROWS)
    assert sum(each.split.of(Part.PREFIX) for each in now) > 0
    assert not any(each.split.of(Part.PREFIX) for each in before)
    assert [each.total for each in before] == [each.total for each in now]
    with pytest.raises(ReplayDiverged, match="followers"):
        replay(read_lines(with_followers(lines, (999,))))
