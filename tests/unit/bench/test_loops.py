import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from arriero.bench.ask import Ask
from arriero.bench.loops import LoopRun, run_schedule
from arriero.bench.loops_answers import Answers
from arriero.bench.schedule import Limits, Loop, Planned, Schedule, seal
from arriero.core.errors import ConfigError
from arriero.metrics.client_latency import ttft
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.virtual_loop import run_virtual, virtual_pace
from tests.unit.bench.scripted_target import MS, S, ScriptedTarget


def ask(name: str, **more: object) -> Ask:
    return Ask(request_id=name, prompt=(1, 2, 3), max_tokens=4, **more)  # type: ignore[arg-type]


def at(times: list[int], limits: Limits | None = None) -> Schedule:
    items = [Planned(ask=ask(f"r{number:04d}"), at_ns=time) for number, time in enumerate(times)]
    return seal(Loop.OPEN, items, limits=limits)


def shared(count: int, clients: int, *, limits: Limits | None = None, think_ns: int = 0) -> Schedule:
    items = [Planned(ask=ask(f"r{number:04d}"), think_ns=think_ns) for number in range(count)]
    return seal(Loop.CLOSED, items, client_starts=[0] * clients, limits=limits)


def run(schedule: Schedule, stop_at: int | None = None, **target: object) -> tuple[LoopRun, ScriptedTarget]:
    async def main() -> tuple[LoopRun, ScriptedTarget]:
        pace = virtual_pace()
        answers = Answers()
        asked = ScriptedTarget(pace, on_text=answers.note, **target)  # type: ignore[arg-type]
        stop = asyncio.Event()
        if stop_at is not None:
            asyncio.get_running_loop().call_at(stop_at / S, stop.set)
        return await run_schedule(asked, schedule, pace, answers=answers, stop=stop), asked

    return run_virtual(main())


def outcomes(lives: tuple[ClientLife, ...]) -> dict[str, int]:
    return dict(Counter(str(life.outcome) for life in lives))


def test_sends_are_on_time_although_no_answer_comes() -> None:
    schedule = at([number * 10 * MS for number in range(100)], Limits(drain_ns=2 * S))
    came, target = run(schedule, delay=lambda _ask, _now: 3600 * S)
    assert [time for _, time in target.asked] == [number * 10 * MS for number in range(100)]
    assert target.most_at_once == 100
    assert outcomes(came.lives) == {"timeout": 100}
    assert {life.error for life in came.lives} == {"drain_limit"}
    assert came.ended_at == 990 * MS + 2 * S


def test_f3_a_stall_is_seen_by_every_request_that_was_due() -> None:
    stall_at, stall = 20 * S, 5 * S
    schedule = at([number * 50 * MS for number in range(1200)])

    def delay(_ask: Ask, now: int) -> int:
        return stall_at + stall - now if stall_at <= now < stall_at + stall else 0

    came, _ = run(schedule, delay=delay)
    waits = sorted(ttft(life) or 0 for life in came.lives)
    assert sum(wait > 0 for wait in waits) == 100
    assert waits[-1] == stall
    assert waits[1188 - 1] == pytest.approx(4.4 * S, rel=0.01)


def test_a_closed_loop_has_no_intended_times_and_never_more_at_once_than_clients() -> None:
    came, target = run(shared(40, 4), delay=lambda _ask, _now: 100 * MS)
    assert target.most_at_once == 4
    assert all(life.intended_at is None for life in came.lives)
    assert [life.request_id for life in came.lives] == [f"r{number:04d}" for number in range(40)]
    assert came.ended_at == 1000 * MS
    assert came.stopped_at == 900 * MS


def test_clients_think_before_every_request_but_their_first() -> None:
    _, target = run(shared(6, 2, think_ns=S), delay=lambda _ask, _now: 100 * MS)
    assert [time for _, time in target.asked] == [0, 0, 1100 * MS, 1100 * MS, 2200 * MS, 2200 * MS]


def test_a_closed_loop_stops_taking_when_the_time_is_over_and_the_rest_was_never_intended() -> None:
    came, _ = run(shared(1000, 2, limits=Limits(duration_ns=S)), delay=lambda _ask, _now: 300 * MS)
    assert outcomes(came.lives) == {"length": 8}
    assert came.num_left == 992
    assert came.stopped_at == S
    assert came.ended_at == 1200 * MS


def test_a_supply_that_is_used_up_ends_the_loaded_part() -> None:
    came, _ = run(shared(4, 2, limits=Limits(duration_ns=60 * S)), delay=lambda _ask, _now: 300 * MS)
    assert (came.num_left, came.stopped_at, came.ended_at) == (0, 300 * MS, 600 * MS)


def test_clients_start_along_a_ramp() -> None:
    items = [Planned(ask=ask(f"r{number}")) for number in range(6)]
    schedule = seal(Loop.CLOSED, items, client_starts=[0, S, 2 * S])
    _, target = run(schedule, delay=lambda _ask, _now: 10 * S)
    assert [time for _, time in target.asked[:4]] == [0, S, 2 * S, 10 * S]


def conversation(loop: Loop, *, limits: Limits | None = None) -> Schedule:
    first = Planned(ask=ask("t0", conversation="c", turn=0), at_ns=None if loop is Loop.CLOSED else 0)
    turns = [
        Planned(ask=ask(f"t{turn}", conversation="c", turn=turn), follows=f"t{turn - 1}", think_ns=2 * S)
        for turn in range(1, 4)
    ]
    other = Planned(ask=ask("x"), at_ns=None if loop is Loop.CLOSED else 0)
    return seal(loop, [first, *turns, other], client_starts=[0] if loop is Loop.CLOSED else [], limits=limits)


@pytest.mark.parametrize("loop", Loop)
def test_the_next_turn_is_sent_its_think_time_after_the_end_of_the_answer(loop: Loop) -> None:
    came, target = run(conversation(loop), delay=lambda _ask, _now: 300 * MS)
    sent = dict(target.asked)
    assert [sent[f"t{turn}"] for turn in range(4)] == [turn * 2300 * MS for turn in range(4)]
    assert sent["x"] == (0 if loop is Loop.OPEN else 7200 * MS)
    intended = [life.intended_at for life in came.lives if life.conversation]
    assert intended == ([turn * 2300 * MS for turn in range(4)] if loop is Loop.OPEN else [None] * 4)


def test_a_failed_turn_ends_its_conversation_and_the_rest_is_counted() -> None:
    def outcome(asked: Ask) -> Outcome:
        return Outcome.ERROR if asked.request_id == "t1" else Outcome.STOP

    came, target = run(conversation(Loop.OPEN), outcome=outcome)
    assert outcomes(came.lives) == {"stop": 2, "error": 1, "not_sent": 2}
    assert {life.error for life in came.lives if life.outcome is Outcome.NOT_SENT} == {"previous_turn_failed"}
    assert len(target.asked) == 3


def test_a_turn_that_would_come_after_the_end_is_not_sent() -> None:
    came, _ = run(conversation(Loop.OPEN, limits=Limits(duration_ns=3 * S)), delay=lambda _ask, _now: 300 * MS)
    assert [str(life.outcome) for life in came.lives] == ["length", "length", "not_sent", "not_sent", "length"]
    assert {life.error for life in came.lives[2:4]} == {"after_stop"}


def test_an_interrupt_keeps_what_was_measured_and_accounts_for_the_rest() -> None:
    schedule = at([number * 100 * MS for number in range(100)])
    came, target = run(schedule, stop_at=1050 * MS, delay=lambda _ask, _now: 300 * MS)
    assert came.interrupted
    assert outcomes(came.lives) == {"length": 8, "cancelled_by_client": 3, "not_sent": 89}
    assert len(target.asked) == 11
    assert came.stopped_at == came.ended_at == 1050 * MS
    unsent = [life for life in came.lives if life.outcome is Outcome.NOT_SENT]
    assert all(life.intended_at is not None and life.intended_at > came.stopped_at for life in unsent)


def test_an_interrupt_wakes_clients_that_think() -> None:
    came, _ = run(shared(10, 2, think_ns=3600 * S), stop_at=5 * S, delay=lambda _ask, _now: S)
    assert came.ended_at == 5 * S
    assert outcomes(came.lives) == {"length": 2, "not_sent": 8}


def test_the_drain_limit_moves_with_late_turns() -> None:
    schedule = conversation(Loop.OPEN, limits=Limits(drain_ns=S))
    came, _ = run(schedule, delay=lambda _ask, _now: 300 * MS)
    assert outcomes(came.lives) == {"length": 5}


def test_warm_up_by_time_marks_what_arrives_in_it() -> None:
    schedule = at([number * 500 * MS for number in range(6)], Limits(warm_up_ns=S))
    came, _ = run(schedule)
    assert [life.is_warm_up for life in came.lives] == [True, True, False, False, False, False]


def test_turns_carry_the_real_answers_where_the_schedule_says_so() -> None:
    first = Planned(ask=Ask(request_id="a", prompt="one two", max_tokens=4, conversation="c"), at_ns=0)
    second = Planned(
        ask=Ask(request_id="b", prompt="one two made up three four", max_tokens=4, conversation="c", turn=1),
        follows="a",
        num_fresh=2,
    )
    schedule = seal(Loop.OPEN, [first, second], continues_answers=True)
    _, target = run(schedule)
    assert target.prompts == {"a": "one two", "b": "one two<a> three four"}


def test_a_schedule_that_continues_answers_needs_somebody_who_hears_them() -> None:
    async def main() -> None:
        pace = virtual_pace()
        await run_schedule(ScriptedTarget(pace), seal(Loop.OPEN, [], continues_answers=True), pace)

    with pytest.raises(ConfigError, match="answers"):
        run_virtual(main())


def test_a_line_that_breaks_breaks_the_run() -> None:
    def delay(asked: Ask, _now: int) -> int:
        if asked.request_id == "r0001":
            raise ZeroDivisionError
        return 0

    for schedule in (at([0, 1, 2]), shared(3, 1), shared(5, 2)):
        with pytest.raises(ZeroDivisionError):
            run(schedule, delay=delay)


def test_lives_are_in_the_order_of_the_schedule() -> None:
    came, _ = run(at([0, 1, 2, 3]), delay=lambda asked, _now: S - int(asked.request_id[1:]) * 100 * MS)
    ids = [life.request_id for life in came.lives]
    assert all(earlier < later for earlier, later in pairwise(ids))


def test_an_empty_schedule_is_over_at_once() -> None:
    came, _ = run(seal(Loop.OPEN, []))
    assert (came.lives, came.ended_at) == ((), 0)
    came, _ = run(seal(Loop.CLOSED, [], client_starts=[0, 0]))
    assert (came.lives, came.ended_at) == ((), 0)
