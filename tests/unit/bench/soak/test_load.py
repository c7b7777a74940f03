"""A leg in virtual time: everybody asks when planned, nobody is lost, and the end is the end."""

import asyncio
from collections.abc import Callable
from itertools import pairwise, takewhile

from msgspec.structs import replace

from arriero.bench.ask import Ask
from arriero.bench.neighbour import Visit
from arriero.bench.soak.load import Hands, LegRun, run_leg
from arriero.bench.soak.plan import Kind, Leg, asks_of_client, leg_of
from arriero.bench.soak.settings import SoakSettings
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.virtual_loop import run_virtual, virtual_pace
from tests.unit.bench.scripted_target import MS, S, ScriptedTarget
from tests.unit.bench.soak.soaks import life, settings

WHOLE = settings(quick=False)


class NotedNeighbour:
    """Notes when it came and went."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._came_at: int | None = None
        self.stays: list[tuple[int, int]] = []

    def start(self) -> None:
        assert self._came_at is None, "it is here already"
        self._came_at = self._clock()

    def stop(self) -> Visit | None:
        if self._came_at is None:
            return None
        came_at, self._came_at = self._came_at, None
        self.stays.append((came_at, self._clock()))
        return Visit((self._clock() - came_at) / S, 1.0)


def run(
    chosen: SoakSettings,
    number: int = 1,
    *,
    delay: Callable[[Ask, int], int] = lambda _ask, _now: 100 * MS,
    outcome: Callable[[Ask], Outcome] = lambda _ask: Outcome.LENGTH,
    slow_s: float = 1.0,
) -> tuple[LegRun, ScriptedTarget, NotedNeighbour, list[str]]:
    read_slowly: list[str] = []

    async def main() -> tuple[LegRun, ScriptedTarget, NotedNeighbour, list[str]]:
        pace = virtual_pace()
        target = ScriptedTarget(pace, delay, outcome)
        neighbour = NotedNeighbour(pace.clock)

        async def slowly(ask: Ask) -> ClientLife:
            read_slowly.append(ask.request_id)
            await pace.sleep_until(pace.clock() + round(slow_s * S))
            return life(ask.request_id)

        hands = Hands(target=target, read_slowly=slowly, neighbour=neighbour, pace=pace)
        return await run_leg(chosen, leg_of(chosen, number), hands), target, neighbour, read_slowly

    return run_virtual(main())


def asked_at(target: ScriptedTarget, run: LegRun) -> dict[str, float]:
    return {name: (at - run.began_at) / S for name, at in target.asked}


def test_every_request_that_is_handed_over_has_one_end() -> None:
    found, target, _, slow = run(WHOLE)
    assert found.num_asked == len(found.lives) == len(target.asked) + len(slow)
    names = [each.request_id for _, each in found.lives]
    assert len(set(names)) == len(names)


def test_moments_come_when_they_are_planned_and_together() -> None:
    leg: Leg = leg_of(WHOLE, 1)
    found, target, _, slow = run(WHOLE)
    times = asked_at(target, found)
    for moment in leg.moments:
        if moment.kind is Kind.SLOW:
            assert {ask.request_id for ask in moment.asks} <= set(slow)
        else:
            assert all(abs(times[ask.request_id] - moment.at_s) < 0.002 for ask in moment.asks)


def test_a_client_thinks_after_its_answer_and_stops_in_time() -> None:
    found, target, _, _ = run(WHOLE)
    times = asked_at(target, found)
    for client in range(WHOLE.load.clients):
        due = 0.0
        for each in takewhile(lambda each: each.ask.request_id in times, asks_of_client(WHOLE, 1, client)):
            assert abs(times[each.ask.request_id] - due) < 0.002
            due = times[each.ask.request_id] + 0.1 + each.think_s
        assert due >= WHOLE.leg_s * WHOLE.send_share
    assert max(times.values()) <= WHOLE.leg_s * WHOLE.send_share


def test_a_refused_client_waits_longer() -> None:
    chosen = replace(WHOLE, load=replace(WHOLE.load, clients=1, bursts=0, longs=0, slow_readers=0, think_ms=0))
    found, target, _, _ = run(chosen, delay=lambda _ask, _now: 0, outcome=lambda _ask: Outcome.REJECTED)
    times = sorted(asked_at(target, found).values())
    assert len(times) == round(chosen.leg_s * chosen.send_share)  # one a second
    assert all(abs(later - earlier - 1) < 0.01 for earlier, later in pairwise(times))


def test_the_neighbour_comes_and_goes_as_planned_and_in_every_second_leg() -> None:
    found, _, neighbour, _ = run(WHOLE, 1)
    (stay,) = leg_of(WHOLE, 1).stays
    ((came_at, went_at),) = neighbour.stays
    assert abs((came_at - found.began_at) / S - stay.from_s) < 0.002
    assert abs((went_at - found.began_at) / S - stay.to_s) < 0.002
    assert found.stays == neighbour.stays
    assert [round(visit.seconds, 2) for visit in found.visits] == [round(stay.to_s - stay.from_s, 2)]
    assert run(WHOLE, 2)[2].stays == []


def test_what_is_open_after_the_drain_is_given_up_and_told() -> None:
    chosen = replace(WHOLE, drain_s=5)

    def delay(ask: Ask, _now: int) -> int:
        return 1000 * S if "long" in ask.request_id else 0

    found, _, _, _ = run(chosen, delay=delay)
    stuck = [(kind, each) for kind, each in found.lives if each.outcome is not Outcome.LENGTH]
    assert [kind for kind, _ in stuck] == [Kind.LONG] * chosen.load.longs
    assert {each.error for _, each in stuck} == {"drain_limit"}
    assert abs(found.seconds - (chosen.leg_s * chosen.send_share + 5)) < 0.1


def test_a_slow_reader_holds_the_end_of_a_leg_up_and_nothing_else() -> None:
    slow = [moment.at_s for moment in leg_of(WHOLE, 1).moments if moment.kind is Kind.SLOW]
    quick, held_up = run(WHOLE)[0], run(WHOLE, slow_s=30)[0]
    assert held_up.seconds >= max(slow) + 30 - 0.01
    assert len(held_up.lives) == len(quick.lives)


def test_a_leg_that_is_cancelled_leaves_no_neighbour() -> None:
    async def main() -> NotedNeighbour:
        pace = virtual_pace()
        neighbour = NotedNeighbour(pace.clock)
        (stay,) = leg_of(WHOLE, 1).stays

        async def slowly(ask: Ask) -> ClientLife:
            return life(ask.request_id)

        hands = Hands(target=ScriptedTarget(pace), read_slowly=slowly, neighbour=neighbour, pace=pace)
        task = asyncio.ensure_future(run_leg(WHOLE, leg_of(WHOLE, 1), hands))
        await asyncio.sleep((stay.from_s + stay.to_s) / 2)
        assert neighbour.stays == []
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        return neighbour

    assert len(run_virtual(main()).stays) == 1
