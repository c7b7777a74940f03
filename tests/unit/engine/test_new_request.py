"""What a submission says about its turn reaches the scheduler as it was meant."""

import pytest

from arriero.core.errors import InvalidRequest
from arriero.core.ids import RequestId
from arriero.core.request import Request
from arriero.engine.engine import Engine
from arriero.engine.new_request import after, check_new
from arriero.engine.observer import Arrival
from arriero.testing.fakes import ScriptedBackend
from tests.unit.engine.driving import StepLog
from tests.unit.engine.gate_runs import step_by_hand

LIMITS = ScriptedBackend().limits


def request(**fields: object) -> Request:
    values: dict[str, object] = {"request_id": RequestId(1), "prompt": (1, 2), "max_tokens": 4, "arrival_at": 0}
    return Request(**(values | fields))  # type: ignore[arg-type] # fields of every type


def submitted(**options: object) -> Request:
    """The request that the scheduler gets."""
    log = StepLog()

    def ask(engine: Engine) -> None:
        engine.submit([1, 2], 2, **options)  # type: ignore[arg-type] # options of every type

    step_by_hand(ScriptedBackend(), [log], [ask, Engine.shutdown])
    arrivals = [each for record in log.records for each in record.messages if isinstance(each, Arrival)]
    (arrival,) = arrivals
    return arrival.request


def test_turn_and_times_are_those_of_the_caller() -> None:
    asked = submitted(priority=-3, tenant="a", arrival_at=0, timeout_ms=5000, queue_timeout_ms=2000, deadline_ms=3000)
    assert (asked.priority, asked.tenant) == (-3, "a")
    assert (asked.expires_at, asked.start_by, asked.deadline_at) == (5_000_000, 2_000_000, 3_000_000)


def test_nothing_said_is_the_middle_of_the_order_and_no_hurry() -> None:
    asked = submitted()
    assert (asked.priority, asked.tenant) == (0, None)
    assert (asked.expires_at, asked.start_by, asked.deadline_at) == (None, None, None)


def test_a_priority_that_there_is_not_names_its_field() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Engine(ScriptedBackend()).submit([1], 2, priority=1000)
    assert refused.value.field == "priority"


def test_milliseconds_are_counted_from_the_arrival() -> None:
    assert after(7, None) is None
    assert after(7, 3) == 3007


@pytest.mark.parametrize(
    ("asked", "has_started", "field"),
    [
        (request(prompt=(1, LIMITS.vocab_size)), False, "prompt"),
        (request(prompt=(-1,)), False, "prompt"),
        (request(min_tokens=5), False, "min_tokens"),
        (request(max_tokens=10**6), False, "prompt"),
        (request(preloaded=True), True, "preloaded"),
    ],
)
def test_what_can_never_run_names_its_field(asked: Request, has_started: bool, field: str) -> None:  # noqa: FBT001 - a table
    with pytest.raises(InvalidRequest) as refused:
        check_new(asked, LIMITS, has_started=has_started)
    assert refused.value.field == field


def test_what_can_run_is_not_refused() -> None:
    check_new(request(), LIMITS, has_started=True)
    check_new(request(preloaded=True), LIMITS, has_started=False)
