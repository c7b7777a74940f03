"""The eight published workloads come out byte for byte, and settings of their form are read strictly."""

from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from arriero.core.errors import BadWorkload
from arriero.workload.catalogue import NAMES, SATURATED_CHAT, named_config, recipe
from arriero.workload.files import read_workload, write_records
from arriero.workload.manifest import check_manifest, encode_manifest, manifest_of, read_manifest
from arriero.workload.strict import read_settings
from tests.unit.workload.samples import SCHEMA

PUBLISHED = [name for name in NAMES if name != SATURATED_CHAT]
TOTALS = {  # requests, prompt tokens, output tokens, last arrival
    "chat": (8, 293, 315, 113_324),
    "shared_system_prompt": (8, 589, 156, 70_000),
    "coding_agent": (8, 1_244, 540, 98_000),
    "mixed_low": (12, 1_089, 534, 330_000),
    "mixed_medium": (12, 1_089, 534, 110_000),
    "mixed_overload": (12, 1_089, 534, 5_500),
    "overload": (12, 642, 642, 5_500),
    "burst": (8, 224, 92, 0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_workload_and_its_manifest_are_made_again_to_the_byte(name: str, shared_data: Path) -> None:
    folder = shared_data / "serving-lab"
    settings = read_settings(folder / "generator-configs" / f"{name}.json")
    assert named_config(name) == settings
    made = recipe(settings)
    out = BytesIO()
    written = write_records(out, made.make())
    assert out.getvalue() == (folder / "workloads" / f"{name}.jsonl").read_bytes()
    manifest = encode_manifest(manifest_of(made, written.sha256))
    assert manifest == (folder / "workloads" / f"{name}.manifest.json").read_bytes()


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_manifest_agrees_with_its_workload(name: str, shared_data: Path) -> None:
    folder = shared_data / "serving-lab" / "workloads"
    workload = read_workload(folder / f"{name}.jsonl")
    check_manifest(read_manifest(folder / f"{name}.manifest.json"), workload, run_seed=20_260_719)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_workload_has_the_published_totals(name: str) -> None:
    records = list(recipe(named_config(name)).make())
    assert TOTALS[name] == (
        len(records),
        sum(each.prompt_token_count for each in records),
        sum(each.max_new_tokens for each in records),
        max(each.arrival_time_us for each in records),
    )


def _config(**changes: object) -> dict[str, Any]:
    arrival = {"mode": "fixed_interval", "interval_us": 10}
    base = {"schema_version": SCHEMA, "workload_class": "mixed", "request_count": 3, "seed": 1, "arrival": arrival}
    return {**base, **changes}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"schema_version": "v2"}, "schema_version"),
        ({"workload_class": "poetry"}, "workload_class"),
        ({"request_count": -1}, "request_count"),
        ({"request_count": True}, "request_count"),
        ({"seed": 1.0}, "seed"),
        ({"extra": 1}, None),
        ({"arrival": {"mode": "poisson"}}, "arrival.mode"),
        ({"arrival": {"mode": "fixed_interval", "interval_us": 0}}, "arrival.interval_us"),
        ({"arrival": {"mode": "fixed_interval", "interval_us": True}}, "arrival.interval_us"),
        ({"arrival": {"mode": "exponential", "mean_interval_us": 0}}, "arrival.mean_interval_us"),
        ({"arrival": {"mode": "burst", "start_time_us": -1}}, "arrival.start_time_us"),
        ({"arrival": {"mode": "burst", "interval_us": 1}}, "arrival"),
        ({"arrival": {"mode": "manual", "timestamps_us": [1, -2, 3]}}, "arrival.timestamps_us[1]"),
    ],
    ids=count(),
)
def test_settings_of_the_published_form_are_closed_and_typed(changes: dict[str, Any], field: str | None) -> None:
    with pytest.raises(BadWorkload) as caught:
        recipe(_config(**changes), file="c.json")
    assert (caught.value.file, caught.value.field) == ("c.json", field)
    assert "\n" not in str(caught.value)


def test_manual_arrivals_are_taken_as_they_are_and_checked() -> None:
    def times(listed: list[int]) -> list[int]:
        made = recipe(_config(arrival={"mode": "manual", "timestamps_us": listed}))
        return [each.arrival_time_us for each in made.make()]

    assert times([4, 4, 9]) == [4, 4, 9]
    with pytest.raises(BadWorkload, match="has 2 entries for 3 requests"):
        times([4, 4])
    with pytest.raises(BadWorkload, match=r"timestamps_us\[2\]: 3 comes after 4; sort them"):
        times([4, 4, 3])


def test_so_many_requests_that_tokens_leave_int32_are_an_error() -> None:
    made = recipe(_config(request_count=220_000))
    with pytest.raises(BadWorkload, match="int32"):
        for _ in made.make():
            pass
