import asyncio
from collections import Counter
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.ask import Ask
from arriero.bench.loops import LoopRun, run_schedule
from arriero.bench.schedule import Limits, Loop, Planned, Schedule, seal
from arriero.bench.schedule_arrivals import OpenLoop
from arriero.bench.schedule_making import AskOptions, ScheduleOptions, make_schedule
from arriero.bench.schedule_work import fixed_work
from arriero.bench.simulated import SimulatedDriver
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.sim_rows import SimRequestRow
from arriero.record.simulation_config import SimulationConfig
from arriero.sim.own_run import run_simulation
from arriero.testing.virtual_loop import run_virtual, virtual_pace
from arriero.workload.records import WorkloadClass, WorkloadRecord
from tests.unit.bench.scripted_target import ScriptedTarget

US, S = 1_000, 1_000_000_000
CONFIG = {
    "schema_version": "arriero-simulation-v1",
    "name": "small",
    "limits": {"sequences": 3, "rows": 64},
    "kv": {"kind": "cells", "num_cells": 400},
    "cost": {"base_us": 1000, "prefill_row_us": 50, "decode_row_us": 100},
    "workload": {"path": "none"},
}
CACHED = {"kind": "blocks", "total_blocks": 200, "block_size": 4, "prefix_cache": True}


def config(**changes: object) -> SimulationConfig:
    return msgspec.convert({**CONFIG, **changes}, SimulationConfig)


def simulate(schedule: Schedule, *, stop: bool = False, **changes: object) -> LoopRun:
    event = asyncio.Event()
    if stop:
        event.set()
    driver = SimulatedDriver(config(**changes), check=True)
    return asyncio.run(driver.run(schedule, stop=event)).came


def item(name: str, tokens: int = 8, output: int = 4, **more: object) -> Planned:
    cancel, conversation = more.pop("cancel_after", None), more.pop("conversation", None)
    ask = Ask(
        request_id=name, prompt=tuple(range(tokens)), max_tokens=output,
        cancel_after=cancel, conversation=conversation,  # type: ignore[arg-type]
    )  # fmt: skip
    return Planned(ask=ask, **more)  # type: ignore[arg-type]


def test_an_open_schedule_gives_the_simulators_own_rows() -> None:
    of = fixed_work(prompt_tokens=20, max_tokens=12, count=60)
    schedule = make_schedule(of, ScheduleOptions(loop=OpenLoop(rate_per_s=100), seed=5))
    came = simulate(schedule)
    records = [
        WorkloadRecord(
            request_id=each.ask.request_id, arrival_time_us=(each.at_ns or 0) // US, prompt_token_count=20,
            max_new_tokens=12, workload_class=WorkloadClass.CHAT,
        )
        for each in schedule.planned
    ]  # fmt: skip
    rows = {r.request_id: r for r in run_simulation(config(), records) if isinstance(r, SimRequestRow)}
    assert len(came.lives) == 60
    for life in came.lives:
        row = rows[life.request_id]
        assert life.intended_at == life.sent_at == row.arrival_at_us * US
        assert life.chunk_at == tuple(at * US for at in row.token_at_us)
        assert life.closed_at == (row.finished_at_us or 0) * US
        assert (life.outcome, life.num_tokens, life.prompt_tokens) == (Outcome.LENGTH, 12, 20)


def test_clients_wait_for_their_answers_and_think() -> None:
    items = [item(f"r{number:02d}", think_ns=5_000_000) for number in range(8)]
    came = simulate(seal(Loop.CLOSED, items, client_starts=[0, 0]))
    by_sent = sorted(came.lives, key=lambda life: life.sent_at or 0)
    ends = sorted(life.closed_at or 0 for life in came.lives)
    assert [life.sent_at for life in by_sent[2:]] == [end + 5_000_000 for end in ends[:6]]
    assert all(life.intended_at is None for life in came.lives)


def test_a_planned_cancel_leaves_exactly_the_tokens_it_waited_for() -> None:
    items = [item(f"r{k}", output=9, cancel_after=k, at_ns=k * US) for k in range(9)]
    came = simulate(seal(Loop.OPEN, items))
    assert [len(life.chunk_at) for life in came.lives] == list(range(9))
    assert {life.outcome for life in came.lives} == {Outcome.CANCELLED_BY_CLIENT}


def test_answers_that_come_too_late_are_given_up() -> None:
    items = [item("a", output=200, at_ns=0), item("b", at_ns=0)]
    came = simulate(seal(Loop.OPEN, items, limits=Limits(drain_ns=50_000_000)))
    late, fine = came.lives
    assert (late.outcome, late.error, late.closed_at) == (Outcome.TIMEOUT, "drain_limit", 50_000_000)
    assert late.chunk_at[-1] <= 50_000_000
    assert fine.outcome is Outcome.LENGTH


def test_what_never_fits_is_an_error_with_a_word_and_the_run_goes_on() -> None:
    came = simulate(seal(Loop.OPEN, [item("a", tokens=500, at_ns=0), item("b", at_ns=US)]))
    assert [(life.outcome, life.error) for life in came.lives] == [
        (Outcome.ERROR, "context_too_long"),
        (Outcome.LENGTH, None),
    ]


def test_a_broken_conversation_is_accounted_for() -> None:
    items = [
        item("a", tokens=500, at_ns=0, conversation="c"),
        item("b", follows="a", think_ns=S, conversation="c"),
        item("c", follows="b", think_ns=S, conversation="c"),
    ]
    came = simulate(seal(Loop.OPEN, items))
    assert [(life.outcome, life.error) for life in came.lives[1:]] == [(Outcome.NOT_SENT, "previous_turn_failed")] * 2
    assert [life.intended_at for life in came.lives] == [0, S, 2 * S]


def test_a_prefix_cache_sees_the_prompts() -> None:
    items = [item("a", tokens=40, at_ns=0), item("b", tokens=40, at_ns=S)]
    came = simulate(seal(Loop.OPEN, items), kv=CACHED)
    assert came.lives[0].cached_tokens == 0
    assert (came.lives[1].cached_tokens or 0) > 30
    assert simulate(seal(Loop.OPEN, items)).lives[1].cached_tokens is None


def test_a_text_cannot_be_simulated() -> None:
    ask = Ask(request_id="a", prompt="words", max_tokens=1)
    with pytest.raises(ConfigError, match="--prompts tokens"):
        simulate(seal(Loop.OPEN, [Planned(ask=ask, at_ns=0)]))


def test_an_interrupt_keeps_what_was_simulated() -> None:
    items = [item(f"r{number:05d}", output=2, at_ns=number * 10_000_000) for number in range(4000)]
    came = simulate(seal(Loop.OPEN, items), stop=True)
    counts = Counter(life.outcome for life in came.lives)
    assert came.interrupted
    assert counts[Outcome.LENGTH] > 100
    assert sum(counts.values()) == 4000
    unsent = [life for life in came.lives if life.outcome is Outcome.NOT_SENT]
    assert all((life.intended_at or 0) > came.stopped_at for life in unsent)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    loop = draw(st.sampled_from(Loop))
    items: list[Planned] = []
    times = st.none() | st.integers(1, 60).map(lambda ms: ms * 1_000_000)
    duration_ns = draw(times)
    latest = 50 if duration_ns is None else duration_ns // 1_000_000 - 1  # made schedules have nothing later
    for number in range(draw(st.integers(0, 8))):
        at = draw(st.integers(0, latest)) * 1_000_000
        name = f"c{number}"
        for turn in range(draw(st.integers(1, 3))):
            output = draw(st.integers(1, 6))
            items.append(
                item(
                    f"{name}-{turn}",
                    tokens=draw(st.sampled_from([1, 8, 60, 500])),
                    output=output,
                    cancel_after=draw(st.none() | st.integers(0, output - 1)),
                    conversation=name if draw(st.booleans()) else None,
                    at_ns=at if turn == 0 and loop is Loop.OPEN else None,
                    follows=f"{name}-{turn - 1}" if turn else None,
                    think_ns=draw(st.integers(0, 20)) * 1_000_000,
                )
            )
    return seal(
        loop,
        sorted(items, key=lambda each: (each.at_ns is None, each.at_ns or 0)),
        client_starts=[0] * draw(st.integers(1, 4)) if loop is Loop.CLOSED else [],
        limits=Limits(
            duration_ns=duration_ns, drain_ns=draw(times.map(lambda ns: None if ns is None else ns + 7_000))
        ),  # no step ends just then,
    )


@given(schedule=schedules())
def test_every_request_has_one_life_and_follows_its_rules(schedule: Schedule) -> None:
    came = simulate(schedule)
    lives = {life.request_id: life for life in came.lives}
    assert len(lives) + came.num_left == len(schedule.planned)
    assert came.num_left == 0 or schedule.is_supply
    assert list(lives) == [each.ask.request_id for each in schedule.planned if each.ask.request_id in lives]
    for each in schedule.planned:
        if each.ask.request_id in lives:
            _check(each, lives[each.ask.request_id], lives, schedule)
    if schedule.loop is Loop.CLOSED:
        assert _most_at_once(came.lives) <= len(schedule.client_starts)


def _check(each: Planned, life: ClientLife, lives: dict[str, ClientLife], schedule: Schedule) -> None:
    duration = schedule.limits.duration_ns
    if life.sent_at is None:
        assert life.outcome is Outcome.NOT_SENT
        return
    assert life.closed_at is not None
    assert life.sent_at <= life.closed_at
    assert life.intended_at == (life.sent_at if schedule.loop is Loop.OPEN else None)
    assert duration is None or life.sent_at <= duration
    if each.follows is not None:
        assert life.sent_at == (lives[each.follows].closed_at or 0) + each.think_ns
    elif each.at_ns is not None:
        assert life.sent_at == each.at_ns
    if life.outcome is Outcome.CANCELLED_BY_CLIENT:
        assert len(life.chunk_at) == each.ask.cancel_after
    if life.outcome is Outcome.LENGTH:
        assert len(life.chunk_at) == each.ask.max_tokens


def _most_at_once(lives: tuple[ClientLife, ...]) -> int:
    moments = sorted(
        [(life.sent_at or 0, 1) for life in lives if life.sent_at is not None]
        + [(life.closed_at or 0, -1) for life in lives if life.sent_at is not None]
    )
    most = now = 0
    for _, step in moments:
        now += step
        most = max(most, now)
    return most


def test_cancellations_and_lengths_of_a_made_schedule_are_those_of_other_targets() -> None:
    of = fixed_work(prompt_tokens=8, max_tokens=12, count=50)
    asks = AskOptions(cancel_rate=0.4)
    schedule = make_schedule(of, ScheduleOptions(loop=OpenLoop(rate_per_s=50), asks=asks))
    came = simulate(schedule)
    planned = sum(each.ask.cancel_after is not None for each in schedule.planned)
    assert sum(life.outcome is Outcome.CANCELLED_BY_CLIENT for life in came.lives) == planned


@given(schedule=schedules())
def test_the_live_loops_send_the_same_when_answers_take_as_long(schedule: Schedule) -> None:
    if len(schedule.client_starts) > 1:
        schedule = replace(schedule, client_starts=(0,))  # several clients may end in one step, in either order
    simulated = {life.request_id: life for life in simulate(schedule).lives}

    def delay(asked: Ask, now: int) -> int:
        life = simulated[asked.request_id]
        assert life.closed_at is not None
        return 10**15 if life.outcome is Outcome.TIMEOUT else life.closed_at - now

    async def live() -> LoopRun:
        pace = virtual_pace()
        return await run_schedule(
            ScriptedTarget(pace, delay, lambda a: simulated[a.request_id].outcome), schedule, pace
        )

    came = run_virtual(live())
    assert [life.request_id for life in came.lives] == list(simulated)
    for life in came.lives:
        other = simulated[life.request_id]
        assert (life.sent_at, life.intended_at, life.outcome) == (other.sent_at, other.intended_at, other.outcome)
        assert life.error == other.error or life.outcome is not Outcome.NOT_SENT


def test_clients_of_cells_that_are_reused_see_cached_tokens_and_conversations_repeat_their_answers() -> None:
    kv = {"kind": "cells", "num_cells": 400, "reuse": {"retained": 4}}
    opening = tuple(range(10, 18))
    first = Planned(ask=Ask(request_id="a0", prompt=opening, max_tokens=4, conversation="a", turn=0), at_ns=0)
    again = (*opening, 90, 91, 92, 93, 94, 95)  # four of them are the answer
    second = Planned(
        ask=Ask(request_id="a1", prompt=again, max_tokens=4, conversation="a", turn=1), follows="a0", think_ns=S,
    )  # fmt: skip
    other = Planned(ask=Ask(request_id="b", prompt=(*opening[:5], 99), max_tokens=4), at_ns=3 * S)
    schedule = seal(Loop.OPEN, [first, second, other], limits=Limits())

    def cached(**changes: object) -> list[int | None]:
        reuse = {**kv["reuse"], **changes}  # type: ignore[dict-item]
        lives = simulate(schedule, kv={**kv, "reuse": reuse}).lives
        return [life.cached_tokens for life in lives]

    assert cached() == [0, len(opening) + 3, 5], "the last token of an answer is in no memory"
    assert cached(answers_return=False) == [0, len(opening), 5]
    assert cached(keeps_answers=False) == [0, len(opening), 4], "exact mode computes two tokens at least"
    assert cached(cache_scope="session") == [0, len(opening) + 3, None], "one of its own conversation was not looked up"
