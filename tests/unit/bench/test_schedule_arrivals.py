import math
from itertools import islice, pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.schedule_arrivals import ClosedLoop, OpenLoop, Process, Ramp, arrival_times, client_starts

S = 1_000_000_000


def times(loop: OpenLoop, count: int, seed: int = 0) -> list[int]:
    return list(islice(arrival_times(loop, seed), count))


def gaps(loop: OpenLoop, count: int = 20_000) -> list[float]:
    return [(b - a) / S for a, b in pairwise(times(loop, count))]


def test_constant_arrivals_are_even() -> None:
    assert times(OpenLoop(rate_per_s=8, process=Process.CONSTANT), 4) == [0, S // 8, S // 4, 3 * S // 8]


@pytest.mark.parametrize(("process", "cv"), [(Process.POISSON, 1.0), (Process.GAMMA, 0.25), (Process.GAMMA, 3.0)])
def test_gaps_have_the_mean_and_the_variation_that_were_asked_for(process: Process, cv: float) -> None:
    found = gaps(OpenLoop(rate_per_s=50, process=process, cv=cv))
    assert fmean(found) == pytest.approx(1 / 50, rel=0.06)
    assert pstdev(found) / fmean(found) == pytest.approx(cv, rel=0.1)


@given(rate=st.floats(0.01, 1e5), seed=st.integers(0, 2**32), process=st.sampled_from(Process))
def test_another_rate_is_the_same_pattern_stretched(rate: float, seed: int, process: Process) -> None:
    one = times(OpenLoop(rate_per_s=1, process=process, cv=2), 30, seed)
    other = times(OpenLoop(rate_per_s=rate, process=process, cv=2), 30, seed)
    assert all(abs(a / rate - b) <= 1 for a, b in zip(one, other, strict=True))
    assert all(a <= b for a, b in pairwise(other))


def test_other_seeds_give_other_patterns() -> None:
    loop = OpenLoop(rate_per_s=1)
    assert times(loop, 20, 1) == times(loop, 20, 1) != times(loop, 20, 2)


@given(start=st.floats(0, 100), end=st.floats(0.1, 100), seconds=st.floats(0.1, 100))
def test_a_ramp_sends_as_many_as_its_rate_sums_up_to(start: float, end: float, seconds: float) -> None:
    loop = OpenLoop(rate_per_s=end, process=Process.CONSTANT, ramp=Ramp(start=start, end=end, seconds=seconds))
    whole = math.ceil((start + end) / 2 * seconds)
    found = times(loop, min(whole, 400) + 2)
    assert all(a <= b for a, b in pairwise(found))
    for number, at in enumerate(found):
        t = at / S
        summed = start * t + (end - start) * t * t / (2 * seconds)
        if t > seconds:
            summed = (start + end) / 2 * seconds + (t - seconds) * end
        assert summed == pytest.approx(number, abs=1e-3 + number * 1e-6)


def test_clients_begin_when_the_ramp_reaches_their_number() -> None:
    assert client_starts(ClosedLoop(num_clients=3)) == (0, 0, 0)
    ramped = ClosedLoop(num_clients=5, ramp=Ramp(start=1, end=5, seconds=8))
    assert client_starts(ramped) == (0, 2 * S, 4 * S, 6 * S, 8 * S)
