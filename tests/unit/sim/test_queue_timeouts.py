"""Who has not started by its time ends, in virtual time: 10 ms a step, 1 ms a prompt row."""

from dataclasses import replace

import pytest

from arriero.core.events import Admitted, CancelByToken, Finished, Preempted
from arriero.core.ids import Epoch, RequestId
from arriero.core.request import CancelReason, FinishReason, Request, RequestState
from arriero.sim.simulator import Cancellation, Submission
from tests.unit.sim.test_field_cases import MS, ends_by_request, events_of, request, serve


def patient(request_id: int, prompt_tokens: int, max_tokens: int, *, at: int = 0, wait: int) -> Submission:
    """A request that starts within `wait` or not at all."""
    asked = request(request_id, prompt_tokens, max_tokens, at)
    return Submission(replace(asked.request, start_by=at + wait))


def test_who_waits_for_too_long_is_never_computed() -> None:
    steps = serve([request(1, 8, 50), patient(2, 8, 5, wait=200 * MS), request(3, 8, 5)], num_sequences=1)
    end = ends_by_request(steps)[2]
    assert (end.reason, end.cancel_reason) == (FinishReason.CANCELLED, CancelReason.QUEUE_TIMEOUT)
    assert (end.state, end.sequence_id, end.num_computed) == (RequestState.WAITING, None, 0)
    assert 200 * MS <= end.at <= 218 * MS, "at the first boundary after it"
    assert {row.request.request_id for step in steps for row in step.plan.rows} == {1, 3}
    assert ends_by_request(steps)[3].reason is FinishReason.LENGTH


def test_who_starts_in_time_may_take_as_long_as_it_likes() -> None:
    steps = serve([patient(1, 8, 50, wait=1), patient(2, 8, 50, wait=20 * MS)], num_sequences=2)
    assert {end.reason for end in ends_by_request(steps).values()} == {FinishReason.LENGTH}
    assert steps[-1].ended_at > 400 * MS


def test_a_time_that_has_come_at_the_boundary_counts_before_anybody_starts() -> None:
    steps = serve([patient(1, 8, 5, wait=0)], num_sequences=1)
    assert ends_by_request(steps)[1].cancel_reason is CancelReason.QUEUE_TIMEOUT
    assert not any(isinstance(event, Admitted) for event in events_of(steps))


def test_who_lost_its_slot_has_started_before() -> None:
    asks = [request(each, 8, 150) for each in (1, 2, 3)]
    steps = serve([*asks, patient(4, 8, 150, wait=50 * MS)])
    preempted = {event.request_id for event in events_of(steps) if isinstance(event, Preempted)}
    assert preempted == {4}
    assert ends_by_request(steps)[4].reason is FinishReason.LENGTH


def test_an_idle_engine_wakes_for_nobody_who_has_started() -> None:
    steps = serve([patient(1, 8, 5, wait=1000 * MS)])
    assert steps[-1].ended_at < 100 * MS


def test_both_times_end_a_request_once() -> None:
    asked = request(2, 8, 5).request
    late = Submission(replace(asked, start_by=100 * MS, expires_at=100 * MS))
    steps = serve([request(1, 8, 50), late], num_sequences=1)
    ends = [event for event in events_of(steps) if isinstance(event, Finished) and event.request.request_id == 2]
    assert [end.cancel_reason for end in ends] == [CancelReason.TIMEOUT]


@pytest.mark.parametrize("at", [50 * MS, 99 * MS])
def test_a_cancel_before_its_time_keeps_its_own_reason(at: int) -> None:
    asked = Request(
        request_id=RequestId(2), prompt=(2,) * 8, max_tokens=5, arrival_at=0, epoch=Epoch(7), start_by=100 * MS
    )
    cancel = Cancellation(CancelByToken(RequestId(2), Epoch(7), CancelReason.USER), at)
    steps = serve([request(1, 8, 50), Submission(asked), cancel], num_sequences=1)
    assert ends_by_request(steps)[2].cancel_reason is CancelReason.USER
