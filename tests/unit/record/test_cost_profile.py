import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arriero.core.errors import ConfigError, DataError
from arriero.core.option_kinds import Threads
from arriero.costmodel.calibrated import CalibratedCost, HostCosts, StepKind, ValidRange
from arriero.costmodel.passes import PassRules, Stretch
from arriero.costmodel.terms import PassCosts
from arriero.record.cost_profile import (
    CostProfile,
    Fingerprint,
    Measuring,
    Residuals,
    cost_of,
    encode_cost_profile,
    profile_of,
    read_cost_profile,
)
from arriero.record.machine import machine_facts

COST = CalibratedCost(
    rules=PassRules(micro_batch=512, unified=False, stream_cells=2048),
    passes={1: PassCosts.of({"pass": 2000, "one_key": 0.25}), 2: PassCosts.of({"pass": 1500})},
    threads=Threads(1, 2),
    host=HostCosts(step=100, entry=10, token=2, delivery=3),
    valid=ValidRange(rows=512, sequences=8, context=2000, pool=16_000),
)
FINGERPRINT = Fingerprint(
    machine={"cpu": "a fast one", "cores": "2"}, model={"weights": "Q4_0"}, context={"KV layout": "separate"}
)
RESIDUALS = Residuals(
    threads=1, kind=StepKind.DECODE, held_out=True, num_shapes=4, num_samples=20, bias=-0.01, typical=0.02, p90=0.04,
    worst=0.05, noise=0.01, outliers=0.1,
)  # fmt: skip
MEASURING = Measuring(
    made_at="2026-01-02T03:04:05+00:00", seconds=100.0, num_rounds=3, num_samples=600, load=None, busy=None,
    version="1", library="none",
)  # fmt: skip
PROFILE = profile_of(
    COST, name="small", fingerprint=FINGERPRINT, residuals=[RESIDUALS], measuring=MEASURING, machine=machine_facts()
)


def written(folder: Path, changes: dict[str, Any]) -> Path:
    values = json.loads(encode_cost_profile(PROFILE)) | changes
    path = folder / "profile.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_a_profile_says_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(encode_cost_profile(PROFILE))
    assert read_cost_profile(path) == PROFILE
    assert cost_of(read_cost_profile(path)) == COST


def test_terms_that_cost_nothing_are_left_out() -> None:
    assert [each.terms_us for each in PROFILE.passes] == [{"pass": 2000, "one_key": 0.25}, {"pass": 1500}]


def test_other_threads_and_another_context_may_use_it() -> None:
    rules = PassRules(micro_batch=256, unified=False, stream_cells=4096)
    other = cost_of(PROFILE, threads=Threads(2, 2), rules=rules)
    assert (other.threads, other.rules) == (Threads(2, 2), rules)
    assert other.decode_time([Stretch(0, 10, 1, wants_logits=True)]) == 1500
    with pytest.raises(ConfigError, match="--threads 3: calibrated for 1, 2 only"):
        cost_of(PROFILE, threads=Threads(3, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": "arriero-cost-profile-v9"}, "schema_version: invalid enum value"),
        ({"extra": 1}, "extra: unknown field"),
        ({"host": {"step_us": -1}}, r"host\.step_us: expected `float` >= 0"),
        ({"passes": [{"threads": 1, "terms_us": {"pass": 1}}]}, "threads: --threads 1,2: calibrated for 1 only"),
        ({"passes": [{"threads": 1, "terms_us": {"dance": 1}}]}, "passes: dance: no term of a pass"),
        (
            {"passes": [{"threads": 1, "terms_us": {}}, {"threads": 1, "terms_us": {}}]},
            "one number of threads stands twice",
        ),
        ({"passes": [{"threads": 0, "terms_us": {}}]}, r"passes\[0\]\.threads: expected `int` >= 1"),
        ({"valid": {"rows": 1}}, r"valid\.sequences: missing; give it"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_cost_profile(written(tmp_path, changes))
    assert caught.value.file == str(tmp_path / "profile.json")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name a file that can be read"):
        read_cost_profile(tmp_path / "none.json")


def test_equal_machines_do_not_differ() -> None:
    assert FINGERPRINT.differences(FINGERPRINT) == []


def test_differences_name_both_sides() -> None:
    here = Fingerprint(
        machine={"cpu": "a slow one", "cores": "2"},
        model={"weights": "Q4_0", "parameters": "135"},
        context={},
    )
    assert FINGERPRINT.differences(here) == [
        "cpu: a fast one in the profile, a slow one here",
        "parameters: unknown in the profile, 135 here",
        "KV layout: separate in the profile, unknown here",
    ]


def test_the_schema_stands_in_the_file() -> None:
    assert isinstance(PROFILE, CostProfile)
    assert json.loads(encode_cost_profile(PROFILE))["schema_version"] == "arriero-cost-profile-v1"


@pytest.mark.parametrize(
    ("changes", "spread"),
    [
        ({}, 0.0),  # only decode steps
        ({"kind": StepKind.MIXED, "p90": 0.12}, 0.12),
        ({"kind": StepKind.MIXED, "p90": 0.12, "threads": 2}, 0.12),
        ({"kind": StepKind.MIXED, "p90": 0.12, "held_out": False}, 0.0),
        ({"kind": StepKind.MIXED, "p90": 3.0}, 0.5),
    ],
)
def test_errors_of_new_mixed_shapes_are_what_a_promise_allows_for(changes: dict[str, Any], spread: float) -> None:
    residuals = msgspec.structs.replace(RESIDUALS, **changes)
    profile = msgspec.structs.replace(PROFILE, residuals=(residuals,))
    assert cost_of(profile, threads=Threads(1, residuals.threads)).spread == spread
