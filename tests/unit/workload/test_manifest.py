"""A manifest is refused as soon as one of its statements is not so."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from arriero.core.errors import BadWorkload
from arriero.workload.catalogue import named_config, recipe
from arriero.workload.files import read_workload, write_workload
from arriero.workload.manifest import (
    check_manifest,
    encode_manifest,
    make_manifest,
    manifest_of,
    read_manifest,
    sha256_of,
)
from tests.unit.workload.samples import SCHEMA, composed, record

Change = Callable[[dict[str, Any]], None]


def _set(*path: str, to: object) -> Change:
    def change(values: dict[str, Any]) -> None:
        for name in path[:-1]:
            values = values[name]
        values[path[-1]] = to

    return change


def _drop(name: str) -> Change:
    def change(values: dict[str, Any]) -> None:
        del values[name]

    return change


def _check(
    tmp_path: Path, change: Change, config: dict[str, Any] | None = None, *, run_seed: int | None = None
) -> None:
    made = recipe(config or named_config("chat"))
    path = tmp_path / "w.jsonl"
    written = write_workload(path, made.make(), replace=True)
    values = json.loads(encode_manifest(manifest_of(made, written.sha256)))
    change(values)
    manifest = tmp_path / "w.manifest.json"
    manifest.write_text(json.dumps(values), encoding="utf-8")
    check_manifest(read_manifest(manifest), read_workload(path), run_seed=run_seed, file=str(manifest))


def test_a_manifest_agrees_with_the_workload_it_was_made_for(tmp_path: Path) -> None:
    _check(tmp_path, lambda _: None, run_seed=20_260_719)
    _check(tmp_path, lambda _: None, composed())
    _check(tmp_path, lambda _: None, named_config("saturated_chat", 20))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_set("schema_version", to="serving-workload-manifest-v2"), "schema_version"),
        (_set("workload_schema_version", to="v"), "workload_schema_version"),
        (_set("workload_class", to="mixed"), "generator_config.workload_class"),
        (_set("request_count", to=9), "request_count"),
        (_set("request_count", to=True), "request_count"),
        (_set("seed", to=3), "generator_config.seed"),
        (_set("timestamp", to="now"), "timestamp"),
        (_set("workload_sha256", to="0" * 64), "workload_sha256"),
        (_set("workload_sha256", to="A" * 64), "workload_sha256"),
        (_set("generator", to=""), "generator"),
        (_set("generator", to="arriero-composed-v1"), "generator"),
        (_set("generator_config", "request_count", to=9), "generator_config.request_count"),
        (_set("generator_config", "schema_version", to="v"), "generator_config.schema_version"),
        (_set("generator_config", "arrival", "mode", to="poisson"), "generator_config.arrival.mode"),
        (_set("generator_config", "arrival", "mean_interval_us", to=12_001), "generator_config"),
        (_drop("generator"), None),
        (_set("more", to=1), None),
    ],
    ids=count(),
)
def test_a_statement_that_is_not_so_is_named(tmp_path: Path, change: Change, field: str | None) -> None:
    with pytest.raises(BadWorkload) as caught:
        _check(tmp_path, change)
    assert caught.value.field == field
    assert caught.value.file == str(tmp_path / "w.manifest.json")


def test_both_seeds_changed_together_are_found_by_making_the_workload_again(tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["seed"] = values["generator_config"]["seed"] = 7

    with pytest.raises(BadWorkload, match="line 1 of the workload is not what these settings make"):
        _check(tmp_path, change)


def test_the_seed_of_the_run_has_to_be_that_of_the_manifest(tmp_path: Path) -> None:
    with pytest.raises(BadWorkload, match="seed: is 20260719, but should be 3"):
        _check(tmp_path, lambda _: None, run_seed=3)


def _foreign(tmp_path: Path, arrival: dict[str, Any], *, kind: str = "mixed") -> None:
    path = tmp_path / "w.jsonl"
    written = write_workload(path, [record("b", 7), record("a", 9)], replace=True)
    config = {
        "schema_version": SCHEMA,
        "workload_class": kind,
        "request_count": 2,
        "seed": 4,
        "arrival": arrival,
        "x": 1,
    }
    check_manifest(make_manifest("somebody's script", config, written.sha256), read_workload(path))


def test_of_a_foreign_workload_only_the_arrivals_are_made_again(tmp_path: Path) -> None:
    _foreign(tmp_path, {"mode": "manual", "timestamps_us": [7, 9]})
    _foreign(tmp_path, {"mode": "fixed_interval", "interval_us": 2, "start_time_us": 7})
    with pytest.raises(BadWorkload, match="line 2 of the workload arrives at 9 us and not at 8 us"):
        _foreign(tmp_path, {"mode": "manual", "timestamps_us": [7, 8]})
    with pytest.raises(BadWorkload, match="line 1 of the workload is mixed"):
        _foreign(tmp_path, {"mode": "manual", "timestamps_us": [7, 9]}, kind="chat")
    with pytest.raises(BadWorkload, match=r"generator_config.arrival.mode"):
        _foreign(tmp_path, {"mode": "tidal"})


def test_a_manifest_that_is_no_json_or_names_a_key_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    for text, says in (("{", "malformed JSON"), ('{"a": 1, "a": 2}', "given twice"), ("[]", "no JSON object")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(BadWorkload, match=says):
            read_manifest(path)


def test_the_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    written = write_workload(tmp_path / "w.jsonl", [record()])
    assert sha256_of(tmp_path / "w.jsonl") == written.sha256
    with pytest.raises(BadWorkload, match="no such file"):
        sha256_of(tmp_path / "none")
