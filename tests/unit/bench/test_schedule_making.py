from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from arriero.bench.prompts import PromptForm
from arriero.bench.schedule import Limits, Loop, Schedule
from arriero.bench.schedule_arrivals import ClosedLoop, OpenLoop, Process, Replay
from arriero.bench.schedule_making import AskOptions, LoopPlan, ScheduleOptions, make_schedule
from arriero.bench.schedule_work import Work, fixed_work
from arriero.core.errors import BadWorkload, ConfigError
from arriero.workload.records import WorkloadClass, WorkloadRecord

S = 1_000_000_000
CONSTANT = OpenLoop(rate_per_s=10, process=Process.CONSTANT)


def work(*records: WorkloadRecord) -> Work:
    return Work(name="w", records=records, sha256="0" * 64)


def record(name: str, at: int = 0, *, output: int = 4, notes: Mapping[str, Any] | None = None) -> WorkloadRecord:
    return WorkloadRecord(
        request_id=name, arrival_time_us=at, prompt_token_count=8, max_new_tokens=output,
        workload_class=WorkloadClass.CHAT, metadata=None if notes is None else {"arriero": dict(notes)},
    )  # fmt: skip


def talk(name: str, at: int, turns: int, *, waits: bool) -> list[WorkloadRecord]:
    made = []
    for turn in range(turns):
        notes: dict[str, Any] = {"session_id": name, "turn": turn, "fresh_token_count": 3}
        if turn and waits:
            notes |= {"follows": f"{name}-{turn - 1}", "think_time_us": 2_000_000}
        made.append(record(f"{name}-{turn}", at + turn * 1_000_000, notes=notes))
    return made


def make(of: Work, loop: LoopPlan, **more: object) -> Schedule:
    return make_schedule(of, replace(ScheduleOptions(loop=loop), **more))  # type: ignore[arg-type]


def test_an_open_loop_gives_every_request_a_time() -> None:
    schedule = make(fixed_work(prompt_tokens=8, max_tokens=4, count=5), CONSTANT)
    assert [item.at_ns for item in schedule.planned] == [0, S // 10, S // 5, 3 * S // 10, 4 * S // 10]
    assert schedule.loop is Loop.OPEN


def test_a_duration_says_how_many_are_sent_and_a_generator_makes_more() -> None:
    schedule = make(fixed_work(prompt_tokens=8, max_tokens=4, count=2), CONSTANT, limits=Limits(duration_ns=2 * S))
    assert len(schedule.planned) == 20
    with pytest.raises(ConfigError, match="--repeat"):
        make(work(record("a"), record("b")), CONSTANT, limits=Limits(duration_ns=2 * S))
    again = make(work(record("a"), record("b")), CONSTANT, limits=Limits(duration_ns=2 * S), repeat=True)
    assert [item.ask.request_id for item in again.planned][:4] == ["a", "b", "a~2", "b~2"]


def test_a_duration_cuts_a_number_of_requests() -> None:
    of = fixed_work(prompt_tokens=8, max_tokens=4, count=50)
    schedule = make(of, CONSTANT, limits=Limits(duration_ns=S), num_requests=50)
    assert len(schedule.planned) == 10


def test_a_rate_is_of_conversations_and_turns_follow() -> None:
    of = work(
        *sorted([*talk("a", 0, 3, waits=True), *talk("b", 500_000, 2, waits=True)], key=lambda r: r.arrival_time_us)
    )
    schedule = make(of, CONSTANT)
    assert [(i.ask.request_id, i.at_ns) for i in schedule.planned if i.at_ns is not None] == [
        ("a-0", 0),
        ("b-0", S // 10),
    ]
    follows = {i.ask.request_id: (i.follows, i.think_ns, i.num_fresh) for i in schedule.planned if i.follows}
    assert follows == {"a-1": ("a-0", 2 * S, 3), "a-2": ("a-1", 2 * S, 3), "b-1": ("b-0", 2 * S, 3)}


def test_conversations_on_a_clock_keep_their_distances() -> None:
    of = work(*talk("a", 7_000_000, 3, waits=False))
    assert [i.at_ns for i in make(of, CONSTANT).planned] == [0, S, 2 * S]
    closed = make(of, ClosedLoop(num_clients=1))
    assert [i.follows for i in closed.planned] == [None, "a-0", "a-1"]


def test_a_duration_with_conversations_counts_their_first_turns() -> None:
    talks = [each for number in range(30) for each in talk(f"c{number:02d}", number * 10, 2, waits=True)]
    of = work(*sorted(talks, key=lambda r: (r.arrival_time_us, r.request_id)))
    schedule = make(of, CONSTANT, limits=Limits(duration_ns=S))
    assert sum(item.at_ns is not None for item in schedule.planned) == 10


def test_a_replay_takes_the_workloads_own_times_and_its_speed() -> None:
    of = work(record("a", 1_000_000), record("b", 3_000_000))
    assert [i.at_ns for i in make(of, Replay(speed=4)).planned] == [0, S // 2]
    turns = make(work(*talk("a", 0, 2, waits=True)), Replay(speed=4))
    assert turns.planned[1].think_ns == S // 2


def test_the_replay_of_a_closed_loop_is_a_closed_loop_of_the_same_clients() -> None:
    def by(client: int, name: str, at: int, after: str | None) -> WorkloadRecord:
        follows = {} if after is None else {"follows": after, "think_time_us": 1000}
        return record(name, at, notes={"client": client, **follows})

    of = work(by(0, "a", 0, None), by(1, "b", 500, None), by(0, "c", 900, "a"))
    schedule = make(of, Replay())
    assert (schedule.loop, schedule.client_starts) == (Loop.CLOSED, (0, 500_000))
    shared = make(of, ClosedLoop(num_clients=5))
    assert [item.follows for item in shared.planned] == [None, None, None]
    assert [item.think_ns for item in shared.planned] == [0, 0, 1_000_000]
    assert [item.at_ns for item in make(of, CONSTANT).planned] == [0, S // 10, S // 5]


def test_the_hash_names_the_schedule_and_nothing_else() -> None:
    of = fixed_work(prompt_tokens=8, max_tokens=4, count=5)
    options = ScheduleOptions(loop=OpenLoop(rate_per_s=3), seed=4)
    one = make_schedule(of, options)
    assert one.sha256 == make_schedule(of, options).sha256
    others = [
        replace(options, seed=5),
        replace(options, salt="x"),
        replace(options, loop=OpenLoop(rate_per_s=4)),
        replace(options, asks=AskOptions(ignore_eos=True)),
        replace(options, asks=AskOptions(cancel_rate=0.5)),
        replace(options, warm_up_requests=1),
        replace(options, limits=Limits(drain_ns=1)),
    ]
    assert len({one.sha256, *(make_schedule(of, each).sha256 for each in others)}) == 8


def test_a_salt_moves_prompts_and_neither_times_nor_cancels() -> None:
    of = fixed_work(prompt_tokens=8, max_tokens=40, count=50)
    options = ScheduleOptions(loop=OpenLoop(rate_per_s=3), asks=AskOptions(cancel_rate=0.5))
    one, other = make_schedule(of, options), make_schedule(of, replace(options, salt="x"))
    for a, b in zip(one.planned, other.planned, strict=True):
        assert (a.at_ns, a.ask.cancel_after, a.ask.max_tokens) == (b.at_ns, b.ask.cancel_after, b.ask.max_tokens)
        assert a.ask.prompt != b.ask.prompt


def test_so_many_are_cancelled_each_before_its_end() -> None:
    of = fixed_work(prompt_tokens=8, max_tokens=40, count=1000)
    schedule = make(of, CONSTANT, asks=AskOptions(cancel_rate=0.3))
    cancels = [item.ask.cancel_after for item in schedule.planned if item.ask.cancel_after is not None]
    assert len(cancels) == pytest.approx(300, abs=60)
    assert min(cancels) == 0
    assert max(cancels) == 39


def test_the_first_requests_are_the_warm_up() -> None:
    of = fixed_work(prompt_tokens=8, max_tokens=4, count=5)
    assert [i.is_warm_up for i in make(of, CONSTANT, warm_up_requests=2).planned] == [True, True, False, False, False]
    with pytest.raises(ConfigError, match="leave none of 5"):
        make(of, CONSTANT, warm_up_requests=5)


def test_bodies_are_greedy_unless_told_otherwise() -> None:
    of = fixed_work(prompt_tokens=8, max_tokens=4, count=1)
    ask = make(of, CONSTANT, asks=AskOptions(ignore_eos=True, form=PromptForm.CHAT)).planned[0].ask
    assert (ask.fields, ask.endpoint, ask.session_id) == ({"temperature": 0, "ignore_eos": True}, "chat", None)


def test_a_session_is_named_to_the_server_only_if_asked_for() -> None:
    of = work(*talk("a", 0, 2, waits=True))
    assert [i.ask.session_id for i in make(of, CONSTANT, asks=AskOptions(send_session=True)).planned] == ["a", "a"]
    assert [(i.ask.session_id, i.ask.conversation, i.ask.turn) for i in make(of, CONSTANT).planned] == [
        (None, "a", 0),
        (None, "a", 1),
    ]


def test_what_no_server_takes_is_refused() -> None:
    with pytest.raises(BadWorkload, match="'a': asks for 0 tokens"):
        make(work(record("a", output=0)), CONSTANT)


def test_a_duration_that_would_fill_the_memory_is_refused() -> None:
    of = fixed_work(prompt_tokens=8, max_tokens=4, count=1)
    with pytest.raises(ConfigError, match="--duration"):
        make(of, OpenLoop(rate_per_s=1e6), limits=Limits(duration_ns=3600 * S))


def test_repeating_in_a_closed_loop_needs_an_end() -> None:
    with pytest.raises(ConfigError, match="--requests"):
        make(work(record("a")), ClosedLoop(num_clients=1), repeat=True)
