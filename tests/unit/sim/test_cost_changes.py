from dataclasses import replace

import pytest

from arriero.costmodel.calibrated import CalibratedCost
from arriero.costmodel.passes import Stretch
from arriero.costmodel.terms import PassCosts
from arriero.costmodel.tiles import Tiles
from arriero.sim.cost_changes import AnyCost, coefficients, scaled, with_coefficient
from tests.unit.sim.whatif_rig import CALIBRATED, LINEAR

ROWS = [Stretch(0, 100, 1, wants_logits=True), Stretch(1, 0, 20, wants_logits=True)]


def test_everything_takes_so_many_times_as_long() -> None:
    slower = scaled(CALIBRATED, 3.0)
    assert slower.time(ROWS) == pytest.approx(3 * CALIBRATED.time(ROWS), abs=2)  # type: ignore[union-attr]
    assert scaled(LINEAR, 0.5) == type(LINEAR)(base=500, prefill_row=25, decode_row=50)


def test_coefficients_that_are_nothing_have_no_name() -> None:
    assert coefficients(LINEAR) == ("base", "prefill_row", "decode_row")
    assert coefficients(CALIBRATED) == (
        "pass", "rows_0", "rows_16", "rows_64", "one_key", "few_key", "host_step", "host_entry", "host_token",
    )  # fmt: skip


@pytest.mark.parametrize("cost", [LINEAR, CALIBRATED], ids=["linear", "calibrated"])
def test_one_coefficient_is_changed_and_no_other(cost: AnyCost) -> None:
    for name in coefficients(cost):
        changed = with_coefficient(cost, name, 2.0)
        assert changed != cost
        assert with_coefficient(changed, name, 0.5) == cost
        assert coefficients(changed) == coefficients(cost)


@pytest.mark.parametrize("cost", [LINEAR, CALIBRATED], ids=["linear", "calibrated"])
@pytest.mark.parametrize("name", ["bases", "host_nothing", ""])
def test_an_unknown_coefficient_is_none(cost: AnyCost, name: str) -> None:
    with pytest.raises(KeyError):
        with_coefficient(cost, name, 2.0)


def test_who_computes_attention_stays_known() -> None:
    """A machine that is slower in something cuts tiles as before."""
    tiles = Tiles(9, 2)
    cost = replace(CALIBRATED, passes={n: PassCosts(each.values, tiles) for n, each in CALIBRATED.passes.items()})
    for changed in (scaled(cost, 1.5), with_coefficient(cost, "pass", 2.0)):
        assert isinstance(changed, CalibratedCost)
        assert all(each.tiles == tiles for each in changed.passes.values())
