"""Sides that differ in their flags: their order in rounds, their names, and what is sound."""

import asyncio
from collections import Counter

import pytest

from arriero.bench.ask import Ask
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.tuned import (
    Bed,
    Tuned,
    itl_target_of,
    peer_sides,
    profile_for,
    share_out,
    sound,
    turns,
)
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.virtual_loop import run_virtual, virtual_pace
from tests.unit.bench.experiments.running import find
from tests.unit.bench.scripted_target import S, ScriptedTarget

SIDES = [Tuned(name=name, is_ours=True) for name in "abc"]


def life(outcome: Outcome) -> ClientLife:
    return ClientLife(request_id="r", intended_at=None, sent_at=0, closed_at=1, outcome=outcome, asked_tokens=1)


def test_every_side_is_first_and_last_equally_often() -> None:
    rounds = [turns(SIDES, number) for number in range(6)]
    assert all(sorted(side.name for side in each) == ["a", "b", "c"] for each in rounds)
    assert Counter(each[0].name for each in rounds) == {"a": 2, "b": 2, "c": 2}
    assert Counter(each[-1].name for each in rounds) == {"a": 2, "b": 2, "c": 2}


def test_the_peer_is_a_side_for_each_setting() -> None:
    found = peer_sides("path", ["", "-b 64 -ub 64"], ("--flag",))
    assert [(side.name, side.flags) for side in found] == [
        ("llama-server", ("--flag",)),
        ("llama-server -b 64 -ub 64", ("--flag", "-b", "64", "-ub", "64")),
    ]
    assert peer_sides(None, [""], ()) == []
    with pytest.raises(ConfigError, match="peer_settings"):
        peer_sides("path", ["'open"], ())


def test_the_target_of_a_side_is_in_its_flags() -> None:
    target = Tuned(name="ours", is_ours=True, flags=("--displace", "--itl-target", "100"))
    assert itl_target_of(target) == 100
    assert itl_target_of(SIDES[0]) == 0
    for flags in (("--itl-target", "soon"), ("--itl-target", "")):
        with pytest.raises(ConfigError, match="give milliseconds"):
            itl_target_of(Tuned(name="ours", is_ours=True, flags=flags))


def test_clients_share_requests_and_none_waits_for_another() -> None:
    async def main() -> int:
        target = ScriptedTarget(virtual_pace(), delay=lambda _ask, _now: S)
        asks = [Ask(request_id=f"{number}", prompt=(1,), max_tokens=1) for number in range(5)]
        lives = await share_out(target, 2, asks)
        assert sorted(life.request_id for life in lives) == list("01234")
        assert target.most_at_once == 2
        return round(asyncio.get_running_loop().time())

    assert run_virtual(main()) == 3


@pytest.mark.parametrize(
    ("outcome", "problems", "expected"),
    [
        (Outcome.LENGTH, (), (Judgement.HOLDS, Judgement.HOLDS)),
        (Outcome.REJECTED, (), (Judgement.BROKEN, Judgement.HOLDS)),
        (Outcome.LENGTH, ("rows are missing",), (Judgement.HOLDS, Judgement.BROKEN)),
    ],
)
def test_figures_are_sound_if_all_was_answered_and_written_down(
    outcome: Outcome, problems: tuple[str, ...], expected: tuple[Judgement, ...]
) -> None:
    statements = list(sound([life(outcome)], [problems], FailedCells()))
    assert tuple(find(statements, words).judgement for words in ("rejected", "incomplete")) == expected


async def test_without_a_calibration_the_server_takes_the_profile_that_was_kept() -> None:
    bed = Bed(model=ModelSettings(), peer=None, slots=1, slot_tokens=256, backlog=0, threads=0)
    told: list[str] = []
    async with profile_for(bed, 0, told.append) as profile:
        assert profile.flags == ()
    assert told == []
