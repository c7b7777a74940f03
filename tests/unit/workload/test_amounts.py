import random
from itertools import count, islice
from typing import Any

import pytest

from arriero.core.errors import BadWorkload
from arriero.workload.amounts import Amount, Empirical, Exponential, LogNormal, Uniform, sample
from arriero.workload.arrivals import Burst, Constant, Gamma, OpenArrival, Poisson, beginnings
from arriero.workload.catalogue import recipe
from arriero.workload.summary import summarise
from tests.unit.workload.samples import composed, record


def _draws(amount: Amount, num: int = 4000) -> list[int]:
    rng = random.Random(1)
    return [sample(amount, rng) for _ in range(num)]


def test_a_uniform_amount_reaches_both_ends() -> None:
    assert set(_draws(Uniform(low=3, high=6))) == {3, 4, 5, 6}


def test_a_log_normal_amount_has_its_median_and_stays_in_its_range() -> None:
    free = sorted(_draws(LogNormal(mu=5.0, sigma=0.8)))
    assert free[len(free) // 2] == pytest.approx(148, rel=0.06)  # e^5
    cut = _draws(LogNormal(mu=5.0, sigma=0.8, low=100, high=200))
    assert min(cut) >= 100
    assert max(cut) <= 200
    # nothing is piled up at the ends: what lies outside is not moved there
    assert cut.count(100) + cut.count(200) < len(cut) / 20


@pytest.mark.parametrize("mu", [-40.0, 40.0])
def test_a_range_far_from_the_log_normal_amount_still_holds(mu: float) -> None:
    drawn = _draws(LogNormal(mu=mu, sigma=0.1, low=10, high=20), 50)
    assert set(drawn) <= set(range(10, 21))


def test_exponential_and_empirical_amounts() -> None:
    drawn = _draws(Exponential(mean=1000))
    assert sum(drawn) / len(drawn) == pytest.approx(1000, rel=0.05)
    assert set(_draws(Empirical(values=(3, 9, 4), weights=(1, 0, 2)))) == {3, 4}


def _times(arrival: OpenArrival, num: int) -> list[int]:
    return list(islice(beginnings(arrival, random.Random(2)), num))


def test_regular_arrivals() -> None:
    assert _times(Constant(interval_us=7, start_time_us=3), 4) == [3, 10, 17, 24]
    assert _times(Burst(burst_size=2, interval_us=9), 5) == [0, 0, 9, 9, 18]


@pytest.mark.parametrize(
    ("arrival", "burstiness"),
    [
        (Poisson(rate_per_s=2000), 1.0),
        (Gamma(rate_per_s=2000, burstiness=3), 3.0),
        (Gamma(rate_per_s=2000, burstiness=0.3), 0.3),
    ],
)
def test_gaps_have_the_rate_and_burstiness_asked_for(arrival: OpenArrival, burstiness: float) -> None:
    times = _times(arrival, 20_000)
    summary = summarise(record(str(index), time) for index, time in enumerate(times))
    assert summary.rate_per_s == pytest.approx(2000, rel=0.06)
    assert summary.burstiness == pytest.approx(burstiness, rel=0.06)


LENGTH = "prompt_length"
FOUR = {"distribution": "constant", "value": 4}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({LENGTH: {"distribution": "uniform", "low": 5, "high": 4}}, "low 5 is above high 4; swap them"),
        ({LENGTH: {"distribution": "lognormal", "mu": 1, "sigma": 0}}, "prompt_length.sigma: expected `float` > 0"),
        ({LENGTH: {"distribution": "lognormal", "mu": float("nan"), "sigma": 1}}, "prompt_length.mu"),
        ({LENGTH: {"distribution": "lognormal", "mu": 1, "sigma": 1, "low": 5, "high": 4}}, "above high"),
        (
            {LENGTH: {"distribution": "empirical", "values": []}},
            "values: expected `array` of length >= 1",
        ),
        ({LENGTH: {"distribution": "empirical", "values": [1], "weights": [1, 2]}}, "2 weights for 1 values"),
        ({LENGTH: {"distribution": "empirical", "values": [1], "weights": [0]}}, "all weights are 0"),
        ({LENGTH: {"distribution": "zipf"}}, "prompt_length.distribution: invalid value 'zipf'"),
        ({LENGTH: 5}, "prompt_length: expected `object`, got `int`"),
        ({"arrival": {"mode": "poisson", "rate_per_s": float("inf")}}, "arrival.rate_per_s"),
        ({"arrival": {"mode": "poisson", "rate_per_s": 0}}, "arrival.rate_per_s"),
        ({"arrival": {"mode": "gamma", "rate_per_s": 1}}, "missing required field `burstiness`"),
        (
            {"tokens": None, "families": {"count": 2, "prefix_length": FOUR}},
            "families",
        ),
        ({"tokens": {"first_token": 2**31 - 2, "size": 3}}, "the last token id would exceed"),
        ({"generator": "arriero-composed-v9"}, "generator: 'arriero-composed-v9' is none"),
        ({"colour": "red"}, "unknown field `colour`"),
        (
            {
                "arrival": {
                    "mode": "closed_loop",
                    "num_clients": 2,
                    "think_time_us": FOUR,
                },
                "sessions": {
                    "turns": FOUR,
                    "think_time_us": FOUR,
                },
            },
            "closed_loop does not go with sessions",
        ),
    ],
    ids=count(),
)
def test_settings_that_cannot_work_say_which_and_why(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(BadWorkload) as caught:
        recipe(composed(**changes))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
