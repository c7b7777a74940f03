"""What steers a run acts at the step it names, once, and says what went wrong."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import PrefillChunk
from arriero.core.request import Request
from arriero.engine.engine import Engine
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated
from arriero.testing.fakes import ScriptedBackend
from arriero.testing.gates.watch import ArrivalPlan, CancelPlan, StepLog

MakeRecord: TypeAlias = Callable[..., StepRecord]


@pytest.fixture(scope="module")
def record() -> MakeRecord:
    """Makes the record of a step in which requests 0, 1 ... have so many prompt rows, and nothing else happens."""
    log = StepLog()
    engine = Engine(ScriptedBackend(), EngineOptions(keep_alive=False), observers=[log])
    engine.submit([1, 2], 1)
    engine.start(Dedicated())
    engine.join(10)
    real = log.records[0]

    def make(step: int, *prompt_rows: int) -> StepRecord:
        rows = tuple(_chunk(number, num_rows) for number, num_rows in enumerate(prompt_rows))
        return replace(real, plan=replace(real.plan, step=step, rows=rows), events=())

    return make


def _chunk(number: int, num_rows: int) -> PrefillChunk:
    tokens = (1,) * num_rows
    request = Request(request_id=RequestId(number), prompt=tokens, max_tokens=1, arrival_at=0)
    return PrefillChunk(request, SequenceId(number), 0, tokens, wants_logits=False)


def test_cancel_plan_posts_once_after_so_many_chunks(record: MakeRecord) -> None:
    cancelled: list[int] = []
    plan = CancelPlan(cancelled.append, after_chunks={1: 2})
    for step in range(4):
        plan(record(step, 3, 3))
    assert cancelled == [1]


def test_arrival_plan_releases_at_its_step_from_another_thread(record: MakeRecord) -> None:
    submitted: list[str] = []
    with ArrivalPlan(2, lambda: submitted.append(threading.current_thread().name)) as plan:
        for step in range(2):
            plan(record(step))
        assert submitted == []
        for _ in range(2):
            plan(record(2))
    assert submitted == ["gate-submitter"]
    assert (plan.fired, plan.acknowledged) == (1, 1)


def test_arrival_plan_that_is_never_released_submits_nothing_and_ends(record: MakeRecord) -> None:
    submitted: list[int] = []
    with ArrivalPlan(9, lambda: submitted.append(1)) as plan:
        plan(record(1))
    assert submitted == []
    assert (plan.fired, plan.acknowledged) == (0, 0)


def test_arrival_plan_raises_what_its_submitter_raised(record: MakeRecord) -> None:
    def submit() -> None:
        raise ValueError("no room")

    with ArrivalPlan(1, submit) as plan, pytest.raises(ValueError, match="no room"):
        plan(record(1))
    assert plan.acknowledged == 0


def test_step_log_keeps_what_a_callback_raised(record: MakeRecord) -> None:
    log = StepLog()

    def fail(_: StepRecord) -> None:
        raise ValueError("no room")

    log.after_step(fail)
    log.on_step(record(1, 2))
    assert log.problems == ["ValueError: no room"]
    assert log.chunks_of(0) == [2]
    with pytest.raises(LookupError, match="there was no step 7"):
        log.at(7)
