"""Where the time of simulated requests went: 10 ms a step, 1 ms a prefill row; times are microseconds."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from arriero.core.events import Admitted, Preempted, TokenEmitted
from arriero.core.ids import RequestId
from arriero.core.plan import BatchPlan
from arriero.core.request import Request
from arriero.kv.cells import CellLayout, CellManager
from arriero.kv.reuse import ReuseRules
from arriero.metrics.explain import Explainer
from arriero.metrics.explain_parts import Explanation, Part, Share
from arriero.metrics.explain_shares import Shares
from arriero.scheduler.decode_given import DecodeGiven
from arriero.scheduler.draft import PrefillBudget
from arriero.scheduler.planners import DecodeFirst
from arriero.scheduler.policies import FirstComeFirstServed
from arriero.scheduler.progress import Progress
from arriero.scheduler.rules import SchedulerLimits, SchedulerRules
from arriero.scheduler.scheduler import Scheduler
from arriero.scheduler.starts import Following
from arriero.sim.explained import explained, shape_time
from arriero.sim.simulator import Answers, NoAnswers, SimulatedStep, Simulator, Submission, always, never
from arriero.testing.simulation import CountingAnswers, LinearCost

MS = 1000
COST = LinearCost(10 * MS, per_prefill_row=MS)


def request(request_id: int, prompt: int | Sequence[int], max_tokens: int, at: int = 0) -> Submission:
    tokens = (request_id, *range(prompt - 1)) if isinstance(prompt, int) else tuple(prompt)
    return Submission(
        Request(
            request_id=RequestId(request_id), prompt=tokens, max_tokens=max_tokens, arrival_at=at, cache_scope="scope"
        )
    )


def explain(
    messages: Sequence[Submission],
    *,
    per_step: int | None = 32,
    reuse: ReuseRules | None = None,
    progress: Callable[[Request, tuple[int | float, ...]], Progress] = Progress,
    answers: Answers | None = None,
    jumps: Callable[[BatchPlan], bool] = never,
) -> tuple[dict[int, Explanation], list[SimulatedStep]]:
    """Requests by id, and the steps of their run."""
    layout = CellLayout(num_sequences=4, num_cells=512, sequence_limit=512, unified=True)
    scheduler = Scheduler(
        kv=CellManager(layout, reuse=reuse),
        planner=DecodeFirst(Following() if reuse else None),
        policy=FirstComeFirstServed(),
        limits=SchedulerLimits(num_rows=64, budget=PrefillBudget(per_step=per_step)),
        rules=SchedulerRules(reuse=reuse, progress=progress),
    )
    simulator = Simulator(scheduler=scheduler, cost=COST, answers=answers or CountingAnswers(), jumps=jumps)
    told: list[Explanation] = []
    steps = list(explained(simulator.run(messages), Explainer(told.append, Shares(shape_time(COST)))))
    return {each.request_id: each for each in told}, steps


@pytest.mark.parametrize(("per_step", "chunk"), [(32, 32), (None, 61)])
def test_a2_each_delayed_token_names_the_long_prompt_and_its_share(per_step: int | None, chunk: int) -> None:
    streams = [request(each, 8, 24) for each in (1, 2, 3)]
    found, steps = explain([*streams, request(9, 400, 4, at=64 * MS)], per_step=per_step)
    chunks = [chunk] * (400 // chunk) + [400 % chunk]
    for number in (1, 2, 3):
        times = [
            event.at
            for step in steps
            for event in step.events
            if isinstance(event, TokenEmitted) and event.request_id == number
        ]
        lengths = [later - earlier for earlier, later in pairwise(times)]
        gaps = found[number].gaps
        assert [gap.others for gap in gaps] == [(Share(9, rows * MS),) for rows in chunks]
        assert [gap.split.named for gap in gaps] == [
            {"decode": 10 * MS, "others_prefill": rows * MS} for rows in chunks
        ]
        assert [gap.split.total for gap in gaps] == [lengths[gap.index - 1] for gap in gaps]
        assert {lengths[index] for index in range(len(lengths))} == {10 * MS, *((10 + rows) * MS for rows in chunks)}
    assert found[9].until_first.of(Part.OWN_PREFILL) == 400 * MS
    assert found[9].until_first.of(Part.OTHERS_DECODE) == len(chunks) * 10 * MS


def test_c8_followers_say_whose_prefix_they_waited_for() -> None:
    messages = [request(each, (*range(300), *[1000 + each] * 8), 4) for each in (1, 2, 3, 4)]
    found, steps = explain(messages, reuse=ReuseRules())
    started = {
        event.request.request_id: event.at for step in steps for event in step.events if isinstance(event, Admitted)
    }
    assert started[RequestId(1)] == 0
    for number in (2, 3, 4):
        assert started[RequestId(number)] > 300 * MS
        assert found[number].split.of(Part.PREFIX) == started[RequestId(number)]
        assert found[number].leaders == (Share(1, int(started[RequestId(number)])),)
        assert found[number].split.of(Part.QUEUE) == 0
        assert found[number].cached_tokens >= 299
    assert found[1].leaders == ()


def test_who_waits_for_a_slot_and_not_for_a_prefix_says_so() -> None:
    shared = [request(each, (*range(100), *[1000 + each] * 8), 30) for each in (1, 2, 3, 4)]
    found, _ = explain([*shared, request(5, (*range(100), *[1005] * 8), 4, at=150 * MS)], reuse=ReuseRules())
    assert found[2].leaders != ()
    assert found[5].split.of(Part.QUEUE) > 0
    assert found[5].split.of(Part.PREFIX) == 0


def test_c1_the_one_that_had_to_yield_says_how_long_it_waited_and_computed_again() -> None:
    found, steps = explain([request(each, 8, 150) for each in range(1, 5)])
    every = [event for step in steps for event in step.events]
    (yielded,) = [event for event in every if isinstance(event, Preempted)]
    (resumed,) = [event for event in every if isinstance(event, Admitted) and event.resumed]
    four = found[4]
    assert four.num_preemptions == 1
    assert four.split.of(Part.PREEMPTED) == resumed.at - yielded.at
    assert four.split.of(Part.RECOMPUTED) >= yielded.num_computed * MS
    assert all(not found[number].split.of(Part.PREEMPTED) for number in (1, 2, 3))


@pytest.mark.parametrize("progress", [Progress, DecodeGiven])
def test_equal_steps_that_were_taken_in_one_are_explained_as_if_one_by_one(progress: type[Progress]) -> None:
    messages = [request(1, 40, 60), request(2, 70, 30, at=3 * MS), request(3, 9, 80, at=400 * MS)]
    runs = [explain(messages, progress=progress, answers=NoAnswers(), jumps=jumps) for jumps in (always, never)]
    (jumped, few), (walked, many) = runs
    assert len(few) < len(many) / 3
    assert jumped == walked
    assert [each.num_tokens for _, each in sorted(jumped.items())] == [60, 30, 80]
