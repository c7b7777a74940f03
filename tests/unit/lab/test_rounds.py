from collections import Counter

import pytest

from arriero.costmodel.passes import Stretch
from arriero.lab.rounds import LEAST_VISITS, MOST_VISITS, Measured, measure_rounds
from arriero.lab.shapes import Probe
from arriero.lab.stand import Stand
from tests.unit.lab.stands import Stopwatch, synthetic


def chunk(size: int) -> Probe:
    return Probe(f"prefill {size}", (Stretch(0, 0, size, wants_logits=False),))


SHORT, LONG = chunk(2), chunk(200)  # 5 ms and 104 ms


def visits(measured: Measured, threads: int = 1) -> Counter[str]:
    return Counter(sample.probe.name for sample in measured.samples[threads])


def rounds(seconds: float, *, seed: int = 1, told: list[float] | None = None) -> Measured:
    clock = Stopwatch()
    stands = {number: Stand(synthetic(clock), 256, clock) for number in (1, 2)}
    tell = None if told is None else lambda part, words: told.append(part)  # noqa: ARG005
    return measure_rounds(stands, [SHORT, LONG], seconds=seconds, clock=clock, seed=seed, tell=tell)


def test_every_shape_comes_three_times_however_long_it_takes() -> None:
    measured = rounds(0.5)
    assert visits(measured) == visits(measured, 2) == {SHORT.name: LEAST_VISITS, LONG.name: LEAST_VISITS}
    assert measured.num_rounds == LEAST_VISITS


def test_the_time_is_used_and_long_shapes_get_no_more_than_their_part() -> None:
    measured = rounds(4.0)
    assert 4.0 <= measured.seconds < 4.3
    assert visits(measured)[LONG.name] == 10  # a quarter of 4 s, and the visit that was under way
    assert visits(measured)[SHORT.name] > 50


def test_at_twice_the_time_it_ends_all_the_same() -> None:
    measured = rounds(0.2)
    assert 0.4 < measured.seconds < 0.6
    assert min(visits(measured).values()) >= 1


def test_a_fast_model_is_done_before_the_time_is_up() -> None:
    assert rounds(10_000.0).num_rounds == MOST_VISITS


def test_shapes_come_in_another_order_in_each_round_and_in_the_same_for_a_seed() -> None:
    def order(seed: int) -> list[str]:
        return [sample.probe.name for sample in rounds(4.0, seed=seed).samples[1]]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[float] = []
    rounds(4.0, told=told)
    assert told == sorted(told)
    assert told[0] == 0
    assert told[-1] == pytest.approx(1.0, abs=0.05)
