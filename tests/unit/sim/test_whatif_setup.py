import pytest
from msgspec.structs import replace

from arriero.core.errors import ConfigError
from arriero.record.cost_parts import cost_setup
from arriero.record.journal_setup import CellsSetup, FirstComeSetup, LowestFirstSetup, PlacesSetup, ShortestPrefillSetup
from arriero.sim.composition import build_scheduler
from arriero.sim.whatif_setup import Changes, changed, cost_for, recorded_cost
from tests.unit.sim.whatif_rig import CALIBRATED, LINEAR, setup_of


def test_nothing_changed_is_the_same_setup() -> None:
    setup = setup_of()
    assert changed(setup, Changes(), LINEAR) == setup
    assert recorded_cost(setup) is None


def test_a_policy_and_limits_are_exchanged() -> None:
    setup = setup_of()
    found = changed(setup, Changes(policy="shortest-prefill", rows_per_step=32, rows_per_sequence=8), LINEAR)
    assert isinstance(setup.policy, FirstComeSetup)
    assert isinstance(found.policy, ShortestPrefillSetup)
    assert (found.limits.prefill_rows_per_step, found.limits.prefill_rows_per_seq) == (32, 8)
    assert found.kv == setup.kv
    without = changed(found, Changes(rows_per_step=0), LINEAR)
    assert (without.limits.prefill_rows_per_step, without.limits.prefill_rows_per_seq) == (None, 8)


def test_a_target_brings_the_costs_that_it_needs() -> None:
    found = changed(setup_of(), Changes(itl_target_ms=50), CALIBRATED)
    assert found.limits.target is not None
    assert found.limits.target.limit == 50_000
    assert found.limits.cost == cost_setup(CALIBRATED)
    assert recorded_cost(found) == CALIBRATED
    build_scheduler(found)
    assert changed(found, Changes(itl_target_ms=0), CALIBRATED).limits.target is None
    with pytest.raises(ConfigError, match=r"--itl-target: .* --profile"):
        changed(setup_of(), Changes(itl_target_ms=50), LINEAR)


def test_more_sequences_keep_the_cells_that_one_had() -> None:
    found = changed(setup_of(sequences=4, cells=2048), Changes(sequences=6), LINEAR).kv
    assert isinstance(found, CellsSetup)
    assert (found.num_sequences, found.num_cells, found.sequence_limit) == (6, 6 * 512, 512)
    fixed = changed(setup_of(sequences=4, cells=2048), Changes(sequences=8, ctx_size=2048), LINEAR).kv
    assert isinstance(fixed, CellsSetup)
    assert (fixed.num_cells, fixed.sequence_limit) == (2048, 256)


def test_retained_runs_keep_their_ids() -> None:
    setup = setup_of(sequences=4, retained=2, cells=6 * 512)
    found = changed(setup, Changes(sequences=3), LINEAR)
    assert isinstance(found.kv, CellsSetup)
    assert (found.kv.num_sequences, found.rules.most_running) == (5, 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (Changes(policy="fastest"), "none of fcfs"),
        (Changes(sequences=65), "--sequences 65: each needs a row, and a step has 64"),
        (Changes(ctx_size=3), "--ctx-size 3: is below one cell for each of 4"),
    ],
)
def test_what_cannot_be_is_told(changes: Changes, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        changed(setup_of(), changes, LINEAR)


def test_slots_of_gates_become_plain_ones_and_places_have_no_context() -> None:
    assert isinstance(changed(setup_of(published_pools=True), Changes(), LINEAR).ids, LowestFirstSetup)
    places = replace(setup_of(), kv=PlacesSetup(num_sequences=3))
    assert changed(places, Changes(sequences=5), LINEAR).kv == PlacesSetup(num_sequences=5)
    with pytest.raises(ConfigError, match="--ctx-size"):
        changed(places, Changes(ctx_size=100), LINEAR)


def test_costs_go_by_the_memory_of_the_setup() -> None:
    found = cost_for(CALIBRATED, setup_of(sequences=2, cells=4096))
    assert found.rules.stream_cells == 2048
    assert found.passes == CALIBRATED.passes
