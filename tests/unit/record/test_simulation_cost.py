"""Costs of a simulation: written down, or from a calibration."""

from pathlib import Path

import msgspec
import pytest

from arriero.core.errors import ConfigError, DataError
from arriero.core.option_kinds import Threads
from arriero.costmodel.models import RoundedMicroseconds
from arriero.record.cost_parts import CostSetup
from arriero.record.cost_profile import encode_cost_profile
from arriero.record.simulation_config import SimulationConfig, read_simulation_config, simulation_config_of
from arriero.record.simulation_cost import StepCost
from arriero.sim.own_setup import new_cost, own_setup
from tests.unit.record.test_cost_profile import COST, PROFILE

MEASURED = """
schema_version = "arriero-simulation-v1"
name = "measured"
[limits]
sequences = 4
rows = 512
itl_target_ms = 62.5
[kv]
kind = "cells"
num_cells = 4096
layout = "separate"
[cost]
profile = "profile.json"
[workload]
path = "chat.jsonl"
"""


def read(folder: Path, text: str = MEASURED) -> SimulationConfig:
    (folder / "profile.json").write_bytes(encode_cost_profile(PROFILE))
    (folder / "sim.toml").write_text(text)
    return read_simulation_config(folder / "sim.toml")


def test_a_profile_is_read_for_the_memory_of_the_simulation(tmp_path: Path) -> None:
    cost = new_cost(read(tmp_path))
    assert not isinstance(cost, RoundedMicroseconds)
    assert cost.passes == COST.passes
    assert (cost.rules.unified, cost.rules.stream_cells, cost.rules.micro_batch) == (False, 1024, 512)
    assert cost.threads == Threads(1, 2)


def test_threads_and_micro_batch_may_be_others(tmp_path: Path) -> None:
    more = 'profile = "profile.json"\nthreads = [2, 2]\nmicro_batch = 64'
    cost = new_cost(read(tmp_path, MEASURED.replace('profile = "profile.json"', more)))
    assert not isinstance(cost, RoundedMicroseconds)
    assert (cost.threads, cost.rules.micro_batch) == (Threads(2, 2), 64)


def test_the_scheduler_plans_with_the_same_costs_and_the_target(tmp_path: Path) -> None:
    config = read(tmp_path)
    limits = own_setup(config).limits
    assert isinstance(limits.cost, CostSetup)
    assert limits.cost == config.cost.calibrated
    assert limits.target is not None
    assert limits.target.limit == 62_500
    plain = own_setup(read(tmp_path, MEASURED.replace("itl_target_ms = 62.5", "")))
    assert plain.limits.target is None
    assert plain.limits.cost == limits.cost


def test_a_configuration_that_was_read_holds_all_and_is_the_same_without_the_file(tmp_path: Path) -> None:
    config = read(tmp_path)
    values = msgspec.json.decode(msgspec.json.encode(config))
    (tmp_path / "profile.json").unlink()
    again = simulation_config_of(values, file="a result")
    assert again == config
    assert msgspec.to_builtins(again) == values


def test_what_is_unset_is_left_out_of_a_result() -> None:
    assert msgspec.to_builtins(StepCost(base_us=4.0)) == {
        "base_us": 4.0, "prefill_row_us": 0.0, "decode_row_us": 0.0, "sequence_us": 0.0, "context_token_us": 0.0,
    }  # fmt: skip


def test_a_profile_that_nobody_read_gives_no_costs() -> None:
    with pytest.raises(ConfigError, match="read the configuration from its file"):
        StepCost(profile="profile.json").model()


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('layout = "separate"', 'layout = "unified"', "kv.layout"),
        ('profile = "profile.json"', 'profile = "profile.json"\nthreads = [1, 7]', "cost.threads"),
        ('profile = "profile.json"', 'profile = "none.json"', None),
        ('kind = "cells"\nnum_cells = 4096\nlayout = "separate"', 'kind = "slots"', "cost.profile"),
        ("itl_target_ms = 62.5", "itl_target_ms = 62.5\nchunked_prefill = false", "limits.itl_target_ms"),
    ],
)
def test_what_does_not_go_with_a_profile_or_a_target_is_refused(
    tmp_path: Path, old: str, new: str, field: str | None
) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, MEASURED.replace(old, new))
    assert caught.value.field == field
    assert "; " in str(caught.value)


def test_a_target_goes_with_decode_rows_first(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="goes with decode-first and chunked prefill"):
        read(tmp_path, MEASURED.replace("[limits]", 'planner = "arrival-order"\n[limits]'))
