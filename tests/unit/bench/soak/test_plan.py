"""The plan of a soak is a function of its seed and the number of a leg."""

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from arriero.bench.soak.plan import BEGINNINGS, Kind, asks_of_client, leg_of
from arriero.core.errors import ConfigError
from tests.unit.bench.soak.soaks import settings

WHOLE = settings(quick=False)


@given(seed=st.integers(0, 2**32), number=st.integers(0, 1000))
def test_a_leg_is_planned_the_same_again_whatever_came_before(seed: int, number: int) -> None:
    chosen = replace(settings(), seed=seed)
    assert leg_of(chosen, number) == leg_of(chosen, number)
    first, again = (list(islice(asks_of_client(chosen, number, 1), 5)) for _ in range(2))
    assert first == again


@given(number=st.integers(0, 1000))
def test_everything_comes_while_requests_are_sent(number: int) -> None:
    leg = leg_of(WHOLE, number)
    assert leg.send_s == pytest.approx(WHOLE.leg_s * WHOLE.send_share)
    assert [moment.at_s for moment in leg.moments] == sorted(moment.at_s for moment in leg.moments)
    assert all(0 <= moment.at_s <= leg.send_s for moment in leg.moments)
    ends = [0.0, *(at for stay in leg.stays for at in (stay.from_s, stay.to_s)), leg.send_s]
    assert ends == sorted(ends)
    assert len(leg.stays) == (WHOLE.load.visits if number % 2 else 0)


def test_a_burst_is_more_than_may_be_in_flight() -> None:
    leg = leg_of(WHOLE, 0)
    bursts = [moment for moment in leg.moments if moment.kind is Kind.BURST]
    assert len(bursts) == WHOLE.load.bursts
    assert {len(burst.asks) for burst in bursts} == {WHOLE.slots + WHOLE.backlog + WHOLE.load.burst_extra}


def test_no_two_requests_have_one_name() -> None:
    names = [
        ask.request_id
        for number in range(3)
        for ask in (
            *(ask for moment in leg_of(WHOLE, number).moments for ask in moment.asks),
            *(each.ask for client in range(3) for each in islice(asks_of_client(WHOLE, number, client), 20)),
        )
    ]
    assert len(set(names)) == len(names)


def test_clients_leave_and_share_as_often_as_they_should() -> None:
    asked = [each for client in range(4) for each in islice(asks_of_client(WHOLE, 0, client), 250)]
    left = [each for each in asked if each.kind is Kind.LEFT]
    assert 0.2 < len(left) / len(asked) < 0.3
    assert all(each.ask.cancel_after is not None and each.ask.cancel_after < each.ask.max_tokens for each in left)
    assert all(each.ask.cancel_after is None for each in asked if each.kind is Kind.CLIENT)
    shared = WHOLE.load.shared_tokens
    begins = [each.ask.prompt[:shared] for each in asked if len(each.ask.prompt) >= shared]
    common = {begin for begin in begins if begins.count(begin) > 1}
    assert len(common) == BEGINNINGS
    assert 0.2 < sum(begin in common for begin in begins) / len(asked) < 0.4


def test_stays_do_not_overlap_however_many_there_are() -> None:
    many = replace(WHOLE, load=replace(WHOLE.load, visits=5))
    stays = leg_of(many, 1).stays
    assert len(stays) == 5
    assert all(stay.from_s < stay.to_s for stay in stays)
    assert all(first.to_s <= second.from_s for first, second in pairwise(stays))


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"long": replace(WHOLE.load.long, prompt_low=9, prompt_high=8)}, "load.long: prompt_low is above prompt_high"),
        ({"slow": replace(WHOLE.load.slow, output_high=9_000)}, "load.slow: up to 9064 tokens"),
        ({"shared_tokens": 4_000}, "load.short: up to 4248 tokens"),
    ],
)
def test_what_could_never_work_is_refused(load: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(WHOLE, load=replace(WHOLE.load, **load)).check()


@pytest.mark.parametrize(
    ("minutes", "leg_s", "expected"), [(30, 60, 30), (0.0333, 0.5, 4), (0.001, 60, 1), (1.01, 60, 2)]
)
def test_legs_fill_the_time(minutes: float, leg_s: float, expected: int) -> None:
    assert replace(WHOLE, minutes=minutes, leg_s=leg_s).num_legs == expected


def test_both_variants_of_the_definition_can_work() -> None:
    WHOLE.check()
    settings().check()
    assert settings().backend == "synthetic"
