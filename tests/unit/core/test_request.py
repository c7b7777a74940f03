import math
from dataclasses import replace
from typing import Any

import pytest

from arriero.core.errors import InvalidSampling
from arriero.core.request import GREEDY, LEGAL_TRANSITIONS, MAX_SEED, RequestState, SamplingParams


@pytest.mark.parametrize(
    ("field", "bad", "good"),
    [
        ("temperature", (-0.1, math.inf, math.nan), (0, 0.7, 100)),
        ("top_k", (-1,), (0, 40)),
        ("top_p", (0, 1.1, math.nan), (0.01, 1)),
        ("min_p", (-0.1, 1.1, math.nan), (0, 1)),
        ("min_keep", (0,), (1, 5)),
        ("repeat_penalty", (0, -1, math.inf, math.nan), (0.5, 2)),
        ("presence_penalty", (-2.1, 2.1, math.nan), (-2, 2)),
        ("frequency_penalty", (-2.1, 2.1, math.nan), (-2, 2)),
        ("penalty_last_n", (-2,), (-1, 0, 64)),
        ("seed", (-1, MAX_SEED + 1), (0, MAX_SEED)),
    ],
)
def test_a_sampling_value_outside_its_range_is_named(field: str, bad: tuple[float], good: tuple[float]) -> None:
    for value in bad:
        changes: dict[str, Any] = {field: value}
        with pytest.raises(InvalidSampling) as caught:
            replace(GREEDY, **changes)
        assert caught.value.field in {field, f"top_p_{field}"}
        assert repr(value) in str(caught.value)
    for value in good:
        changes = {field: value}
        assert getattr(replace(GREEDY, **changes), field) == value


@pytest.mark.parametrize(
    ("params", "plain"),
    [
        (GREEDY, True),
        (SamplingParams(top_k=40, top_p=0.5, min_p=0.1, seed=3), True),
        (SamplingParams(temperature=0.1), False),
        (SamplingParams(logit_bias=((3, 1.0),)), False),
        (SamplingParams(repeat_penalty=1.1), False),
        (SamplingParams(presence_penalty=0.1), False),
        (SamplingParams(frequency_penalty=-0.1), False),
    ],
)
def test_one_argmax_is_enough_only_where_nothing_changes_the_logits(params: SamplingParams, plain: bool) -> None:  # noqa: FBT001 - a parameter
    assert params.is_plain_greedy is plain


def test_the_machine_has_every_state_one_start_and_one_end() -> None:
    assert set(LEGAL_TRANSITIONS) == set(RequestState)
    assert LEGAL_TRANSITIONS[RequestState.FINISHED] == ()
    assert all(RequestState.FINISHED in after for state, after in LEGAL_TRANSITIONS.items()
               if state is not RequestState.FINISHED)  # fmt: skip
