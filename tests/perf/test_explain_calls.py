"""Counts of Python calls in explaining a step: who waits costs nothing, and a plain step little."""

import sys
from types import FrameType

import pytest

from arriero.core.events import TokenEmitted
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import BatchPlan, DecodeRow, Sampled, StepShape
from arriero.core.request import Request
from arriero.metrics.explain import Explainer
from arriero.metrics.explain_events import StepMoments, follow_pass

CALLS_A_STEP = 20
CALLS_A_ROW = 8


def running(num_sequences: int, num_waiting: int) -> Explainer:
    """Requests that have told their first token, and others behind them."""
    explainer = Explainer(lambda _: None)
    explainer.idle(1)
    for each in range(num_sequences + num_waiting):
        explainer.came(each, 0, 8)
    for each in range(num_sequences):
        explainer.started(each, each, 0)
        explainer.token(each)
    return explainer


def count_calls(explainer: Explainer, num_sequences: int) -> int:
    """Calls of Python functions while one step of decode rows is told."""
    count = 0
    rows = tuple(
        DecodeRow(Request(request_id=RequestId(each), prompt=(1,), max_tokens=9, arrival_at=0), SequenceId(each), 8, 1)
        for each in range(num_sequences)
    )
    plan = BatchPlan(
        step=9, rows=rows, shape=StepShape(num_sequences, 0, 0, 8, num_sequences), events=(), caps_hit=(),
        num_waiting=0, wake_at=None,
    )  # fmt: skip
    events = tuple(
        TokenEmitted(RequestId(each), SequenceId(each), token=1, index=1, step=9, at=30)
        for each in range(num_sequences)
    )

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        del frame, arg
        count += event == "call"

    sys.setprofile(profile)
    follow_pass(explainer, plan, Sampled(tokens={}), events, StepMoments(10, 30, 15))
    sys.setprofile(None)
    return count


@pytest.mark.perf
@pytest.mark.parametrize("num_sequences", [1, 16, 64])
def test_a_decode_step_is_told_in_so_many_calls_a_row(num_sequences: int) -> None:
    assert count_calls(running(num_sequences, 0), num_sequences) <= CALLS_A_STEP + CALLS_A_ROW * num_sequences


@pytest.mark.perf
def test_requests_that_wait_cost_no_call_in_a_step() -> None:
    few, many = (count_calls(running(16, waiting), 16) for waiting in (1, 1_000))
    assert few == many
