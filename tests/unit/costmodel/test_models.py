import pytest

from arriero.core.plan import StepShape
from arriero.costmodel.models import (
    TIME_MAX,
    BatchMicroseconds,
    CallMilliseconds,
    PhaseMicroseconds,
    RoundedMicroseconds,
    SharedMilliseconds,
    TimeOverflow,
)

SHAPE = StepShape(decode_rows=3, prefill_rows=20, prefill_chunks=2, context_tokens=100, num_running=6)


def test_one_call_adds_its_terms_from_left_to_right() -> None:
    cost = SharedMilliseconds(base=0.1, prompt_row=0.05, decode_row=0.7, active_slot=0.3, stream_emit=0.2)
    assert cost.step_time(SHAPE) == 0.1 + 0.05 * 20 + 0.7 * 3 + 0.3 * 6 + 0.2 * 3


def test_calls_apart_are_summed_in_their_order_and_slots_once() -> None:
    call = SharedMilliseconds(base=0.1, prompt_row=0.05, decode_row=0.7, active_slot=0.3, stream_emit=0.2)
    calls = (StepShape(0, 7, 1, 0, 1), StepShape(1, 0, 0, 9, 1), StepShape(0, 13, 1, 4, 1))
    shape = StepShape(1, 20, 2, 13, 6, calls)
    expected = ((0.1 + 0.05 * 7) + (0.1 + 0.05 * 0 + 0.7 + 0.2)) + (0.1 + 0.05 * 13) + 0.3 * 6
    assert CallMilliseconds(call).step_time(shape) == expected


def test_a_batch_counts_rows_and_sequences() -> None:
    cost = BatchMicroseconds(base=80, prefill_row=5, decode_row=10, sequence=3)
    assert cost.step_time(SHAPE) == 80 + 5 * 20 + 10 * 3 + 3 * 5


def test_prefill_and_decode_of_one_request_have_bases_of_their_own() -> None:
    cost = PhaseMicroseconds(prefill_base=105, prefill_row=8, decode_base=52)
    assert cost.step_time(StepShape(0, 10, 1, 0, 1)) == 185
    assert cost.step_time(StepShape(0, 0, 1, 0, 1)) == 105
    assert cost.step_time(StepShape(1, 0, 0, 10, 1)) == 52


def test_float_coefficients_are_rounded_once_at_the_end() -> None:
    cost = RoundedMicroseconds(base=0.4, prefill_row=0.4, decode_row=0.4)
    assert cost.step_time(StepShape(1, 1, 1, 0, 1)) == 1
    assert cost.is_level
    assert not RoundedMicroseconds(base=1, context_token=0.001).is_level
    assert RoundedMicroseconds(base=0, context_token=0.5).step_time(SHAPE) == 50


@pytest.mark.parametrize(
    "cost",
    [
        BatchMicroseconds(base=TIME_MAX, prefill_row=0, decode_row=1, sequence=0),
        PhaseMicroseconds(prefill_base=TIME_MAX, prefill_row=1, decode_base=0),
        RoundedMicroseconds(base=1e19),
    ],
)
def test_what_does_not_fit_in_64_bits_is_refused(
    cost: BatchMicroseconds | PhaseMicroseconds | RoundedMicroseconds,
) -> None:
    with pytest.raises(TimeOverflow, match="64-bit"):
        cost.step_time(SHAPE)
