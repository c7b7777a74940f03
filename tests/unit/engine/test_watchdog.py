"""Busy, or stuck."""

import pytest

from arriero.engine.watchdog import TIMES_PREDICTED, Pulse, Work, stuck_reason

SECOND = 1_000_000
AFTER = 60 * SECOND


def work(predicted: int | None = None) -> Work:
    return Work(step=7, decode_rows=3, prefill_rows=512, predicted=predicted)


@pytest.mark.parametrize(("age", "is_stuck"), [(0, False), (AFTER, False), (AFTER + 1, True)])
def test_a_step_may_take_as_long_as_configured(age: int, is_stuck: bool) -> None:  # noqa: FBT001 - a table
    for pulse in (Pulse(5, work=work()), Pulse(5)):
        assert (stuck_reason(pulse, 5 + age, after=AFTER) is not None) is is_stuck


def test_a_step_that_was_predicted_to_be_long_may_take_many_times_that() -> None:
    pulse = Pulse(0, work=work(predicted=10 * SECOND))
    allowed = TIMES_PREDICTED * 10 * SECOND
    assert stuck_reason(pulse, allowed, after=AFTER) is None
    assert stuck_reason(pulse, allowed + 1, after=AFTER) is not None
    short = Pulse(0, work=work(predicted=1000))
    assert stuck_reason(short, AFTER, after=AFTER) is None, "and never less than configured"


def test_the_reason_says_how_long_and_what() -> None:
    reason = stuck_reason(Pulse(0, work=work(predicted=400_000)), 75 * SECOND, after=AFTER)
    assert reason == (
        "no step has ended for 75.0 s: step 7 computes 3 decode rows and 512 prompt rows, "
        "which was predicted to take 0.4 s"
    )
    assert stuck_reason(Pulse(0), 75 * SECOND, after=AFTER) == (
        "no step has ended for 75.0 s: requests wait and nothing is computed"
    )


def test_a_clock_that_was_read_a_moment_earlier_makes_no_negative_age() -> None:
    assert Pulse(10).age(9) == 0
