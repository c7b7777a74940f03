"""Results of arriero's own mode: read back strictly, every figure made again, and each change found."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arriero.core.errors import DataError
from arriero.record.sim_file import file_sha256, read_sim_result, read_sim_rows
from arriero.record.sim_rows import SimRequestRow, StepRow, encode_sim_row, encode_table
from arriero.record.sim_run import SimRunRow
from arriero.record.simulation_config import SimulationConfig, simulation_config_of
from arriero.workload.records import WorkloadRecord
from tests.equivalence.test_jump import own_worlds
from tests.unit.record.sim_files import SCENES, own_config, write_own
from tests.unit.record.test_lab_file import mutations

Row = dict[str, Any]

# Fields that something pins down in every row of their kind. Not pinned: labels, the text of a reason, where a run
# comes from, the numbers of steps between idle ones, and what a step says about a moment that no other row knows: how
# much memory was held, how many waited, who was deferred and why.
PINNED = {
    "run": (
        "config", "config_sha256", "evidence_type", "record_type", "schema_version", "seed",
    ),
    "step": (
        "began_at_us", "decode_rows", "ended_at_us", "preempted", "prefill_rows", "record_type", "schema_version",
    ),
    "request": (
        "arrival_at_us", "cached_tokens", "finished_at_us", "first_token_at_us", "generated_tokens", "internal_id",
        "looked_up", "outcome", "preemptions", "prompt_tokens", "recomputed_tokens", "record_type",
        "schema_version", "started_at_us", "token_at_us",
    ),
    "summary": (
        "counts", "latency", "marks", "preemption", "prefix_cache", "record_type", "schema_version", "steps",
        "whole_run", "window",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("own")
    paths = {name: folder / f"{name}.jsonl" for name in SCENES}
    for name, path in paths.items():
        write_own(path, own_config(**SCENES[name]))
    return paths


@pytest.mark.parametrize("name", SCENES)
def test_a_result_is_read_back(files: dict[str, Path], tmp_path: Path, name: str) -> None:
    summary = write_own(tmp_path / "again.jsonl", own_config(**SCENES[name]))
    assert (tmp_path / "again.jsonl").read_bytes() == files[name].read_bytes()
    result = read_sim_result(files[name])
    assert json.dumps(result.summary, sort_keys=True) == json.dumps(summary, sort_keys=True)
    assert result.run.config == own_config(**SCENES[name])
    assert len(result.requests) == 7
    assert (result.num_steps > 0) == (result.run.config.trace != "off")


def test_the_scenes_show_something(files: dict[str, Path]) -> None:
    summaries = [read_sim_result(path).summary for path in files.values()]
    assert any(each["preemption"]["recomputed_tokens"] for each in summaries)
    assert any(each["prefix_cache"]["hits"] for each in summaries)
    assert any(each["evictions"] for each in summaries)
    assert all(each["counts"]["rejected"] for each in summaries[:4])
    assert any(each["window"] and each["window"]["output_tokens_per_s"] for each in summaries)


def test_rows_come_one_at_a_time_and_are_those_of_the_file(files: dict[str, Path]) -> None:
    lines = files["full"].read_bytes().splitlines()
    rows = list(read_sim_rows(files["full"]))
    assert isinstance(rows[0], SimRunRow)
    native = [row for row in rows if isinstance(row, StepRow | SimRequestRow)]
    assert [encode_sim_row(row) for row in native] == lines[1:-1]
    assert file_sha256(files["full"]) != file_sha256(files["counts"])


@given(own_worlds(), st.integers(0, 40), st.integers(0, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_run_can_be_read(
    tmp_path: Path, world: tuple[SimulationConfig, list[WorkloadRecord]], warm_up: int, cool_down: int
) -> None:
    config, records = world
    for window in (None, {"warm_up_us": warm_up, "cool_down_us": cool_down}):
        values = json.loads(json.dumps({**to_json(config), "window": window}))
        try:
            simulation_config_of(values, file="drawn.json")
        except DataError:
            return  # fields that do not go together
        for trace in ("off", config.trace):
            changed = from_json({**values, "trace": trace})
            summary = write_own(tmp_path / "f.jsonl", changed, records)
            found = read_sim_result(tmp_path / "f.jsonl").summary
            assert json.dumps(found, sort_keys=True) == json.dumps(summary, sort_keys=True)


@given(seed=st.integers(0, 2**32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=300)
def test_a_file_with_one_changed_field_is_refused(files: dict[str, Path], tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = files[rng.choice(list(SCENES))].read_bytes().splitlines()
    number = rng.choice([0, len(lines) - 1, len(lines) - 2, rng.randrange(len(lines))])
    row: Row = json.loads(lines[number])
    name = rng.choice(PINNED[row["record_type"]])
    before = json.dumps(row)
    place, field = leaf(row, name, rng)
    place[field] = rng.choice(mutations(place[field]))
    if json.dumps(row) == before or is_harmless(row, name, field):
        return
    lines[number] = encode_table(row)
    path = tmp_path / "changed.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    with pytest.raises(DataError, match=r"^line "):
        read_sim_result(path)


def leaf(row: Row, name: str, rng: random.Random) -> tuple[Row, str]:
    """A figure inside a field, however deep."""
    place, field = row, name
    while isinstance(place[field], dict) and place[field] and rng.random() < 0.9:
        place = place[field]
        field = rng.choice(list(place))
    return place, field


def is_harmless(row: Row, name: str, field: str) -> bool:
    """Figures of the summary that no row knows, of which only the form is looked at; when who was rejected came."""
    if row.get("outcome") == "rejected" and name == "arrival_at_us":
        return True
    unknown = {"kv_fragmentation", "kv_peak", "kv_utilization", "mean_sequences", "mean_waiting", "num_idle",
               "num_steps", "num_waiting_peak", "mean_rows", "batch_utilization", "busy_us", "idle_us"}  # fmt: skip
    return name == "steps" and field in unknown


def whole(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


DAMAGES: dict[str, tuple[Callable[[list[bytes]], bytes], str]] = {
    "empty": (lambda _: b"", "line 1: record_type: the file is empty"),
    "cut": (lambda lines: whole(lines)[:-9], "the line does not end"),
    "no summary": (lambda lines: whole(lines[:-1]), "the summary is missing"),
    "no run": (lambda lines: whole(lines[1:]), "line 1: record_type: the first row is of kind step, not run"),
    "order": (
        lambda lines: whole([lines[0], *lines[2:-1], lines[1], lines[-1]]),
        "a row of kind step comes after one of kind request",
    ),
    "two summaries": (
        lambda lines: whole([*lines, lines[-1]]),
        "a row of kind summary comes after one of kind summary",
    ),
    "blank": (lambda lines: whole([*lines[:2], b"", *lines[2:]]), "malformed JSON"),
    "space": (
        lambda lines: whole([lines[0], lines[1].replace(b",", b", ", 1), *lines[2:]]),
        "not written in the one way",
    ),
    "unknown": (
        lambda lines: whole([lines[0], b'{"record_type":"other"}', *lines[1:]]),
        "'other' is no row of arriero-simulator-v1",
    ),
    "a step less": (lambda lines: whole([lines[0], *lines[2:]]), "steps.num_steps"),
    "a request less": (lambda lines: whole([*lines[:-3], *lines[-2:]]), "internal_id"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused(files: dict[str, Path], tmp_path: Path, damage: str) -> None:
    change, says = DAMAGES[damage]
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(change(files["counts"].read_bytes().splitlines()))
    with pytest.raises(DataError) as error:
        read_sim_result(path)
    assert says in str(error.value)
    assert str(error.value).startswith("line ")
    assert "\n" not in str(error.value)


def to_json(config: SimulationConfig) -> Row:
    values: Row = msgspec.to_builtins(config)
    return values


def from_json(values: Row) -> SimulationConfig:
    return msgspec.convert(values, SimulationConfig)
