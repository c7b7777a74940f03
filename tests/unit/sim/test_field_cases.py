"""Rows of the field cases in virtual time: 10 ms a step, 1 ms a prefill row; times are microseconds."""

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

from arriero.core.events import Admitted, CancelById, Event, Finished, Preempted, PreemptionCause, TokenEmitted
from arriero.core.ids import RequestId
from arriero.core.request import FinishReason, Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.rules import SchedulerLimits
from arriero.scheduler.scheduler import Scheduler
from arriero.sim.simulator import Cancellation, Message, SimulatedStep, Simulator, Submission
from arriero.testing.simulation import CountingAnswers, LinearCost

MS = 1000
COST = LinearCost(10 * MS, per_prefill_row=MS)


def request(request_id: int, prompt_tokens: int, max_tokens: int, at: int = 0) -> Submission:
    prompt = (request_id, *range(prompt_tokens - 1))
    return Submission(Request(request_id=RequestId(request_id), prompt=prompt, max_tokens=max_tokens, arrival_at=at))


def serve(messages: Sequence[Message], *, per_step: int | None = 32, num_sequences: int = 4) -> list[SimulatedStep]:
    layout = CellLayout(num_sequences=num_sequences, num_cells=512, sequence_limit=512, unified=True)
    scheduler = Scheduler(
        kv=CellManager(layout),
        planner=DecodeFirst(),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=64, budget=PrefillBudget(per_step=per_step)),
    )
    steps = list(Simulator(scheduler=scheduler, cost=COST, answers=CountingAnswers(), check=True).run(messages))
    assert not scheduler.has_work, "requests are stalled"
    assert scheduler.snapshot().kv.active_cells == 0
    return steps


def events_of(steps: Sequence[SimulatedStep]) -> list[Event]:
    return [event for step in steps for event in step.events]


def tokens_by_request(steps: Sequence[SimulatedStep]) -> dict[int, list[TokenEmitted]]:
    tokens: dict[int, list[TokenEmitted]] = defaultdict(list)
    for event in events_of(steps):
        if isinstance(event, TokenEmitted):
            tokens[event.request_id].append(event)
    return tokens


def ends_by_request(steps: Sequence[SimulatedStep]) -> dict[int, Finished]:
    return {event.request.request_id: event for event in events_of(steps) if isinstance(event, Finished)}


STREAMS = [request(each, 8, 24) for each in (1, 2, 3)]
LONG = request(9, 400, 4, at=64 * MS)


@pytest.mark.parametrize("per_step", [32, None])
def test_a1_streams_go_on_while_a_long_prompt_is_prefilled(per_step: int | None) -> None:
    steps = serve([*STREAMS, LONG], per_step=per_step)
    tokens = tokens_by_request(steps)
    assert [sum(event.at <= 64 * MS for event in tokens[each]) for each in (1, 2, 3)] == [4, 4, 4]
    prefill = [step for step in steps if any(row.request.request_id == 9 and row.start < 400 for row in step.plan.rows)]
    chunk = 61 if per_step is None else per_step
    assert len(prefill) == -(-400 // chunk) == (7 if per_step is None else 13)
    assert prefill[0].began_at == 64 * MS
    for step in prefill:
        emitted = {event.request_id for event in step.events if isinstance(event, TokenEmitted)}
        assert emitted >= {1, 2, 3}
    gaps = [
        later.at - earlier.at
        for each in (1, 2, 3)
        for earlier, later in zip(tokens[each], tokens[each][1:], strict=False)
    ]
    assert max(gaps) == (10 + chunk) * MS
    assert [event.token for event in tokens[9]] == [0, 1, 2, 3]


def test_a1_the_answers_do_not_depend_on_the_budget() -> None:
    runs = [tokens_by_request(serve([*STREAMS, LONG], per_step=per_step)) for per_step in (32, 7, None)]
    texts = [{each: [event.token for event in events] for each, events in run.items()} for run in runs]
    assert texts[0] == texts[1] == texts[2]


def test_a3_first_come_first_served_lets_a_short_request_wait_behind_a_long_prefill() -> None:
    messages = [request(1, 450, 8), request(2, 5, 8, at=10 * MS)]
    steps = serve(messages)
    tokens = tokens_by_request(steps)
    assert tokens[1][0].step == tokens[2][0].step == -(-450 // 32)
    order = [(event.request_id, event.index) for event in events_of(steps) if isinstance(event, TokenEmitted)]
    assert order == [(each, index) for index in range(8) for each in (1, 2)]
    assert serve(messages) == steps


def test_c1_an_overflow_costs_one_preemption_and_nobody_fails() -> None:
    steps = serve([request(each, 8, 150) for each in range(1, 5)])
    preempted = [event for event in events_of(steps) if isinstance(event, Preempted)]
    assert [(event.request_id, event.cause) for event in preempted] == [(4, PreemptionCause.NO_ROOM)]
    ends = ends_by_request(steps)
    assert {end.reason for end in ends.values()} == {FinishReason.LENGTH}
    for events in tokens_by_request(steps).values():
        assert [event.token for event in events] == list(range(150))


def test_c6_a_request_without_a_limit_uses_the_whole_context() -> None:
    steps = serve([request(1, 12, 500)])
    assert ends_by_request(steps)[1].num_decoded == 500
    assert ends_by_request(steps)[1].reason is FinishReason.LENGTH
    assert max(step.plan.shape.context_tokens for step in steps) + 1 == 511


def test_c6_four_requests_without_a_limit_start_together_and_all_get_their_500_tokens() -> None:
    steps = serve([request(each, 12, 500) for each in range(1, 5)])
    first = [event for event in events_of(steps) if isinstance(event, Admitted) and not event.resumed]
    assert {event.step for event in first} == {1}
    ends = ends_by_request(steps)
    assert {(end.reason, end.num_decoded) for end in ends.values()} == {(FinishReason.LENGTH, 500)}
    for events in tokens_by_request(steps).values():
        assert [event.token for event in events] == list(range(500))


@pytest.mark.parametrize("seed", range(2))
def test_b4_cancels_at_random_moments_wedge_nothing(seed: int) -> None:
    rng = random.Random(seed)
    messages: list[Message] = []
    at = 0
    for each in range(1000):
        at += rng.randint(0, 120) * MS
        messages.append(request(each, rng.randint(1, 200), rng.randint(1, 60), at))
        if rng.random() < 0.5:
            messages.append(Cancellation(CancelById(RequestId(each)), at + rng.randint(0, 800) * MS))
    steps = serve(messages)
    numbers = [step.plan.step for step in steps]
    assert numbers == list(range(1, len(steps) + 1)), f"seed {seed}"
    ends = ends_by_request(steps)
    assert len(ends) == 1000, f"seed {seed}"
    assert {end.reason for end in ends.values()} == {FinishReason.LENGTH, FinishReason.CANCELLED}
    tokens = tokens_by_request(steps)
    for each, end in ends.items():
        if end.reason is FinishReason.LENGTH:
            assert [event.token for event in tokens[each]] == list(range(end.request.max_tokens)), f"seed {seed}"
    busy = sum(step.ended_at - step.began_at for step in steps)
    assert busy == sum(COST.step_time(step.plan.shape) for step in steps if step.plan.rows)
    idle = [step for step in steps if not step.plan.rows]
    assert steps[-1].ended_at <= max(message.at for message in messages) + busy
    assert len(idle) <= len(messages) + 1, "the idle loop polls"
