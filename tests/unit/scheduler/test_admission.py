import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import ConfigError, ContextTooLong, InvalidRequest
from arriero.core.ids import RequestId
from arriero.core.request import Request
from arriero.scheduler.admission import (
    AllSlotsFree,
    AtMost,
    Continuous,
    OneAtATime,
    StartRule,
    check_fits,
)


def request(prompt_tokens: int, max_tokens: int) -> Request:
    return Request(request_id=RequestId(1), prompt=(0,) * prompt_tokens, max_tokens=max_tokens, arrival_at=0)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 60))
def test_a_request_fits_if_all_but_its_last_token_have_a_position(prompt: int, output: int, limit: int) -> None:
    if prompt + output - 1 <= limit:
        check_fits(request(prompt, output), limit)
        return
    with pytest.raises(ContextTooLong) as caught:
        check_fits(request(prompt, output), limit)
    assert (caught.value.needed, caught.value.limit) == (prompt + output - 1, limit)
    assert all(str(number) in str(caught.value) for number in (prompt, output, limit))


@pytest.mark.parametrize(("prompt", "output", "field"), [(0, 1, "prompt"), (1, 0, "max_tokens")])
def test_an_empty_request_names_the_field(prompt: int, output: int, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_fits(request(prompt, output), 100)
    assert caught.value.field == field


@pytest.mark.parametrize("rule", [Continuous(), AllSlotsFree(), OneAtATime(), AtMost(1), AtMost(3)])
def test_a_rule_lets_as_many_run_as_it_says(rule: StartRule) -> None:
    num_running = 0
    while num_running < 9 and rule.may_start(num_running, num_running):
        num_running += 1
    assert num_running == min(9, rule.most_running)


def test_a_rule_that_lets_nobody_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1 must"):
        AtMost(0)
