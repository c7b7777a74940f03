import pytest

from arriero.core.errors import ConfigError
from arriero.metrics.client_figures import ClientSlos
from arriero.sim.asked import Asked, by_chance
from arriero.sim.capacity import STEPS, Demand, largest, saturation, sustainable
from tests.unit.sim.whatif_rig import LINEAR, asked, setup_of

MS = 1_000_000
WORK = by_chance(asked(*((0, 20 + 13 * number % 50, 5 + number % 7) for number in range(60))), seed=5)


def demand(work: tuple[Asked, ...] = WORK, share: float = 0.9, **slos: int) -> Demand:
    return Demand(asked=work, slos=ClientSlos(**{f"{name}_ns": bound for name, bound in slos.items()}), share=share)


def test_saturation_is_what_all_at_once_come_to() -> None:
    # two sequences, four equal requests: a step for both prompts, four for their further tokens, and all that again
    work = asked(*((0, 10, 5) for _ in range(4)))
    took = 2 * ((1000 + 20 * 50) + 4 * (1000 + 2 * 100))
    assert saturation(setup_of(sequences=2), LINEAR, work) == pytest.approx(4e6 / took)


def test_loose_objectives_hold_up_to_saturation() -> None:
    found = sustainable(setup_of(), LINEAR, demand(e2e=10**15))
    assert found.is_saturated
    assert found.rate_per_s == found.saturation_per_s
    assert len(found.tried) == 1, "no lower rate has to be tried"


def test_objectives_that_no_rate_keeps_give_no_rate() -> None:
    found = sustainable(setup_of(), LINEAR, demand(ttft=1 * MS))
    assert (found.rate_per_s, found.attainment, found.is_saturated) == (0.0, None, False)
    assert found.tried[0].rate_per_s == pytest.approx(found.saturation_per_s / STEPS)


def test_the_rate_is_the_last_that_keeps_the_share() -> None:
    found = sustainable(setup_of(), LINEAR, demand(ttft=12 * MS))
    assert 0 < found.rate_per_s < found.saturation_per_s
    assert found.attainment is not None
    assert found.attainment >= 0.9
    above = [each for each in found.tried if each.rate_per_s > found.rate_per_s]
    assert above[0].rate_per_s == pytest.approx(found.rate_per_s + found.saturation_per_s / STEPS)
    assert all(each.attainment < 0.9 for each in above)
    assert [each.rate_per_s for each in found.tried] == sorted(each.rate_per_s for each in found.tried)


def test_what_is_refused_is_not_good() -> None:
    work = by_chance(asked(*((0, 900 if number % 4 == 0 else 20, 5) for number in range(40))), seed=1)
    kept = sustainable(setup_of(), LINEAR, demand(work, share=0.7, e2e=10**15))
    lost = sustainable(setup_of(), LINEAR, demand(work, share=0.8, e2e=10**15))
    assert kept.rate_per_s > 0
    assert lost.rate_per_s == 0
    assert 0.7 < max(each.attainment for each in lost.tried) < 0.8


def test_nothing_served_is_no_capacity() -> None:
    found = sustainable(setup_of(), LINEAR, demand(by_chance(asked((0, 900, 5), (0, 900, 5)), seed=1), e2e=10**15))
    assert (found.saturation_per_s, found.rate_per_s, found.tried) == (0.0, 0.0, ())


def test_requests_of_one_moment_need_arrivals_by_chance() -> None:
    with pytest.raises(ConfigError, match="--arrivals poisson"):
        sustainable(setup_of(), LINEAR, demand(asked((0, 9, 5), (0, 9, 5)), e2e=10**15))


@pytest.mark.parametrize("edge", [0, 1, 2, 31, 32, 33, 63, 64])
def test_halves_find_the_edge(edge: int) -> None:
    seen: list[int] = []

    def holds(number: int) -> bool:
        seen.append(number)
        return number <= edge

    assert largest(holds, 64) == edge
    assert len(seen) == len(set(seen)) <= 7
