"""The search keeps the better half of the candidates, rung by rung, and every trial."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.peers import Peer
from arriero.bench.search import Flags, Knob, SearchOutcome, SearchPlan, Stage, search
from arriero.bench.search_plans import as_json, plan_of, read_plan
from arriero.bench.servers import ServerFailed
from arriero.core.errors import ConfigError, DataError
from arriero.record.bench_compare_parts import SearchTrial

FLASH = Knob(name="flash", choices=(("-fa", "on"), ("-fa", "off")))
BATCH = Knob(name="batch", choices=((), ("-b", "256")))
GRID = SearchPlan(stages=(Stage(knobs=(FLASH, BATCH)),))


class Bench:
    """Knows how good each flag is, and how the machine drifts."""

    def __init__(self, worth: dict[str, float], *, drift: float = 0.0, noise: float = 0.0) -> None:
        self.worth = worth
        self.drift = drift
        self.noise = random.Random(1), noise
        self.asked: list[tuple[Flags, int]] = []

    async def measure(self, flags: Flags, number: int) -> float | None:
        self.asked.append((flags, number))
        rng, size = self.noise
        slower = 1 + self.drift * len(self.asked)
        return 100.0 * self.value(flags) * (1 + size * rng.uniform(-1, 1)) / slower

    def value(self, flags: Flags) -> float:
        worth = 1.0
        for flag in flags:
            worth *= self.worth.get(flag, 1.0)
        return worth


async def find(bench: Bench, plan: SearchPlan = GRID, *, higher_is_better: bool = True) -> SearchOutcome:
    return await search(plan, bench.measure, higher_is_better=higher_is_better, seed=3)


async def test_the_best_combination_wins_and_all_trials_are_kept() -> None:
    told: list[SearchTrial] = []
    bench = Bench({"on": 1.2, "256": 1.1})
    found = await search(GRID, bench.measure, higher_is_better=True, seed=3, tell=told.append)
    assert found.best == ("-fa", "on", "-b", "256")
    assert list(found.trials) == told
    assert [(trial.rung, len(trial.values), trial.kept) for trial in found.trials if trial.rung == 1] == [
        (1, 4, False),
        (1, 4, True),
    ]
    assert sum(trial.kept for trial in found.trials if trial.rung == 0) == 2
    assert len(bench.asked) == 4 * 2 + 2 * 4


async def test_of_latencies_the_lowest_wins() -> None:
    assert (await find(Bench({"on": 1.2, "256": 1.1}), higher_is_better=False)).best == ("-fa", "off")


async def test_a_drift_of_the_machine_does_not_choose() -> None:
    found = await find(Bench({"on": 1.1}, drift=0.05))
    assert found.best[:2] == ("-fa", "on")


async def test_rounds_never_come_twice_and_hold_each_candidate_once() -> None:
    bench = Bench({"on": 1.2})
    await find(bench)
    by_round: dict[int, list[Flags]] = {}
    for flags, number in bench.asked:
        by_round.setdefault(number, []).append(flags)
    assert sorted(by_round) == list(range(6))
    assert all(len(set(each)) == len(each) for each in by_round.values())
    assert len({tuple(each) for each in list(by_round.values())[:2]}) == 2, "the order changes from round to round"


async def test_a_later_stage_starts_from_the_winner_with_one_change_at_a_time() -> None:
    poll = Knob(name="poll", choices=(("--poll", "0"), ("--poll", "100")))
    store = Knob(name="store", choices=(("--cache-ram", "0"),))
    plan = SearchPlan(stages=(Stage(knobs=(FLASH,)), Stage(knobs=(poll, store), combined=False)), num_rounds=1)
    found = await find(Bench({"off": 1.2, "100": 1.3}), plan)
    assert found.best == ("-fa", "off", "--poll", "100")
    second = {trial.flags for trial in found.trials if trial.stage == 1}
    assert ("-fa", "off") in second
    assert ("-fa", "off", "--poll", "0", "--cache-ram", "0") not in second
    assert len(second) == 4


async def test_a_stage_of_one_candidate_is_measured_all_the_same() -> None:
    plan = SearchPlan(stages=(Stage(knobs=(Knob(name="x", choices=(("-x",),)),)),))
    found = await find(Bench({}), plan)
    assert found.best == ("-x",)
    assert len(found.trials) == 1


async def test_a_candidate_that_does_not_start_is_out_and_told() -> None:
    bench = Bench({"on": 1.5})

    async def measure(flags: Flags, number: int) -> float | None:
        if "on" in flags:
            raise ServerFailed("b: ended with status 1")
        return await bench.measure(flags, number)

    found = await search(GRID, measure, higher_is_better=True, seed=0)
    assert found.best[:2] == ("-fa", "off")
    assert [trial.failed for trial in found.trials if "on" in trial.flags] == ["b: ended with status 1"] * 2


async def test_a_candidate_without_any_figure_is_out_and_one_that_misses_some_is_not() -> None:
    bench = Bench({"off": 1.2})

    async def measure(flags: Flags, number: int) -> float | None:
        if "on" in flags or number == 1:
            return None
        return await bench.measure(flags, number)

    found = await search(GRID, measure, higher_is_better=True, seed=0)
    assert found.best[:2] == ("-fa", "off")
    assert [trial.failed for trial in found.trials if "on" in trial.flags] == ["no round gave a figure"] * 2


async def test_if_nothing_can_be_measured_the_reason_is_told() -> None:
    async def measure(_flags: Flags, _number: int) -> float | None:
        raise ServerFailed("no such program")

    with pytest.raises(ServerFailed, match="no candidate could be measured; the first says: no such program"):
        await search(GRID, measure, higher_is_better=True, seed=0)


@given(best=st.integers(0, 6), seed=st.integers(0, 100))
async def test_a_clear_winner_is_found_under_noise(best: int, seed: int) -> None:
    plan = SearchPlan(stages=(Stage(knobs=(Knob(name="x", choices=tuple((f"-{n}",) for n in range(7))),)),))
    bench = Bench({f"-{best}": 1.3}, noise=0.1)
    found = await search(plan, bench.measure, higher_is_better=True, seed=seed)
    assert found.best == (f"-{best}",)


def test_a_grid_that_is_not_small_is_refused() -> None:
    knobs = tuple(Knob(name=str(n), choices=(("a",), (f"b{n}",))) for n in range(7))
    with pytest.raises(ConfigError, match="search stage 1: 128 candidates; leave at most 64"):
        SearchPlan(stages=(Stage(knobs=knobs),)).check()


@pytest.mark.parametrize("peer", Peer)
def test_servers_known_by_name_have_a_plan(peer: Peer) -> None:
    assert plan_of("default", peer, "--b-search").stages


def test_other_servers_have_none() -> None:
    with pytest.raises(ConfigError, match="--b-search default: only a server known by name has a default"):
        plan_of("default", None, "--b-search")


def test_a_plan_is_read_from_a_file_and_written_in_its_form(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('rounds = 3\n[[stage]]\ncombined = false\n[stage.knobs]\nbatch = ["-b 256 -ub \'1 2\'", ""]\n')
    plan = read_plan(path)
    assert plan == SearchPlan(
        stages=(Stage(knobs=(Knob(name="batch", choices=(("-b", "256", "-ub", "1 2"), ())),), combined=False),),
        num_rounds=3,
    )
    assert as_json(plan) == {
        "rounds": 3,
        "stage": [{"combined": False, "knobs": {"batch": ["-b 256 -ub '1 2'", ""]}}],
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rounds = 1\n", "stage: missing"),
        ("stage = []\n", "stage: expected"),
        ("[[stage]]\nknobs = {}\n", "knobs"),
        ("[[stage]]\nknob = {}\n", "unknown field"),
        ('[[stage]]\nknobs = {x = ["-b \'1"]}\n', "close the quote"),
    ],
)
def test_a_broken_plan_is_refused_with_the_field(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=says):
        read_plan(path)
