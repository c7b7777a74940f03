"""`arriero gate` reads its flags into one value."""

import shlex

import pytest

from arriero.cli.gate import MACHINE, read_arguments
from arriero.core.config import PlacementKind
from arriero.core.errors import ConfigError
from arriero.core.gate_args import Compositions, ExactnessKnobs, GateArgs, GateKnobs, GateVerb, StormKnobs
from arriero.core.option_kinds import Threads


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARRIERO_CONFIG", raising=False)


def test_nothing_given_is_every_gate_in_both_placements() -> None:
    assert read_arguments([]) == GateArgs(config=MACHINE)
    assert read_arguments([]).placements == (PlacementKind.DEDICATED, PlacementKind.SHARED)


def test_interrupts_are_off_unless_asked_for() -> None:
    assert read_arguments(["--interrupt"]).interrupt
    assert not read_arguments([]).interrupt


def test_gates_are_named_in_any_case() -> None:
    args = read_arguments(["g1", "G44", "--json", "gates.json", "--placement", "shared", "--threads", "2"])
    assert args.names == ("G1", "G44")
    assert args.json_file == "gates.json"
    assert args.placements == (PlacementKind.SHARED,)
    assert args.config.threads == Threads(2, 2)


@pytest.mark.parametrize("verb", [verb for verb in GateVerb if verb is not GateVerb.GATES])
def test_a_verb_comes_first(verb: GateVerb) -> None:
    assert read_arguments([verb]).verb is verb


def test_a_run_takes_the_published_knobs() -> None:
    words = "run --active 4 --waiting 2 --budgets 8,16 --cancel-plan none --reuse-completed --repeats 2"
    args = read_arguments(shlex.split(words))
    assert args.knobs == GateKnobs(
        active=4, waiting=2, budgets=(8, 16), cancel_plan=(), reuse_completed=True, repeats=2
    )
    assert read_arguments(["run"]).knobs == GateKnobs()


def test_exactness_takes_how_many_from_which_seed_and_under_which_composition() -> None:
    args = read_arguments(shlex.split("exactness --requests 500 --seed 7 --mode exact --matrix --markdown table.md"))
    assert args.exactness == ExactnessKnobs(
        requests=500, seed=7, mode=Compositions.EXACT, matrix=True, markdown="table.md"
    )
    assert read_arguments(["exactness"]).exactness == ExactnessKnobs()
    assert read_arguments(["exactness"]).knobs == GateKnobs()


def test_a_storm_takes_its_size() -> None:
    assert read_arguments(shlex.split("storm --requests 300 --seed 2")).storm == StormKnobs(requests=300, seed=2)
    assert read_arguments(["storm"]).storm.requests == 2000


def test_a_composition_that_there_is_not_is_told_in_one_line() -> None:
    with pytest.raises(ConfigError, match="--mode slow: not one of the choices; use exact or fast or both"):
        read_arguments(shlex.split("exactness --mode slow"))
