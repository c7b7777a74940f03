"""A server that fails costs its cell and the verdict, and neither the other cells nor the package."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from arriero.bench.client_loop import run as run_on_loop
from arriero.bench.experiments.calls import CallFailed
from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.end_to_end import EXPERIMENT as END_TO_END
from arriero.bench.experiments.evidence import EvidencePackage
from arriero.bench.experiments.experiment import Experiment, Judgement
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.interference import EXPERIMENT as INTERFERENCE
from arriero.bench.experiments.interference import Interference, over_http
from arriero.bench.experiments.occupancy import EXPERIMENT as OCCUPANCY
from arriero.bench.experiments.prefix_reuse import W_CHAT
from arriero.bench.experiments.semantics import EXPERIMENT as SEMANTICS
from arriero.bench.experiments.semantics import Matched, Semantics
from arriero.bench.experiments.throughput import EXPERIMENT as THROUGHPUT
from arriero.bench.servers import ServerFailed
from arriero.core.errors import ArrieroError, ConfigError
from tests.unit.bench.experiments.running import definition, find

TOO_MANY = 5_000
"""So many slots that no decode call has a row for each, so that a server refuses to start."""


@pytest.mark.parametrize("failure", [ServerFailed("it ended"), CallFailed("it said nothing")])
def test_cell_whose_server_fails_is_noted_and_the_next_one_runs(failure: ArrieroError) -> None:
    failed = FailedCells()
    ran: list[str] = []
    for name in ("one", "two"):
        with failed.losing(name):
            ran.append(name)
            if name == "one":
                raise failure
    assert ran == ["one", "two"]
    statement = failed.statement("http")
    assert statement.text == "http: cells whose server failed"
    assert statement.measured == f"1 of 2, such as one: {failure}"
    assert statement.judgement is Judgement.BROKEN
    assert failed.facts == {"failed_cells": {"one": str(failure)}}


def test_nothing_is_noted_where_every_server_serves() -> None:
    failed = FailedCells()
    with failed.losing("one"):
        pass
    assert failed.statement().measured == "0 of 1"
    assert failed.statement().judgement is Judgement.HOLDS
    assert failed.facts == {}


def test_what_is_no_fault_of_a_server_goes_through() -> None:
    failed = FailedCells()
    with pytest.raises(ConfigError), failed.losing("one"):
        raise ConfigError("no such program")


def test_reason_is_one_line_without_absolute_paths() -> None:
    failed = FailedCells()
    with failed.losing("one"):
        raise ServerFailed("it ended; /somewhere/deep/server.log says:\nafter POST /shutdown")
    assert failed.facts["failed_cells"] == {"one": "it ended; server.log says: after POST /shutdown"}


ALL: list[tuple[Experiment[Any], dict[str, Any], int]] = [
    (END_TO_END, {"placements": ("dedicated",)}, 3),
    (SEMANTICS, {}, 4),
    (THROUGHPUT, {"clients": (1,)}, 1),
    (OCCUPANCY, {"ladder": ()}, 2),
    (W_CHAT, {}, 6),
]


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "smaller", "cells"), ALL, ids=[each[0].name for each in ALL])
def test_package_is_finished_even_if_no_server_serves(
    experiment: Experiment[Any], smaller: dict[str, Any], cells: int, tmp_path: Path
) -> None:
    quick = read_definition(definition(experiment), experiment.config, quick=True)
    config = replace(quick, model=no_model(tmp_path), **smaller)
    package = EvidencePackage(tmp_path / "out", force=False)
    package.begin(experiment, config, ["arriero"])
    outcome = experiment.run(config, lambda _: None)
    package.finish(outcome)
    failed = find(outcome.statements, "whose server failed")
    assert failed.judgement is Judgement.BROKEN
    assert str(failed.measured).startswith(f"{cells} of {cells}, such as ")
    verdicts = json.loads((tmp_path / "out" / "verdicts.json").read_text())
    assert verdicts["verdict"] == "FAIL"
    assert len(outcome.facts["failed_cells"]) == cells
    assert str(tmp_path) not in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.slow
def test_interference_over_http_goes_on_after_a_server_that_fails(tmp_path: Path) -> None:
    quick = read_definition(definition(INTERFERENCE), Interference, quick=True)
    failed = FailedCells()
    config = replace(quick, model=no_model(tmp_path))
    assert run_on_loop(over_http(config, [(1, 2, 3)], failed, lambda _: None)) == []
    assert sorted(failed.facts["failed_cells"]) == ["http, B = 0", "http, B = 32"]


@pytest.mark.slow
def test_semantics_keeps_the_cells_whose_server_served() -> None:
    quick = read_definition(definition(SEMANTICS), Semantics, quick=True)
    matched = (Matched(clients=TOO_MANY, budget=8), *quick.matched)
    outcome = SEMANTICS.run(replace(quick, matched=matched), lambda _: None)
    failed = find(outcome.statements, "whose server failed")
    assert str(failed.measured).startswith(f"1 of 5, such as arriero: {TOO_MANY} clients on as many slots, budget 8: ")
    assert find(outcome.statements, "one answer and 1").judgement is Judgement.HOLDS
    assert find(outcome.statements, "within a shape").judgement is Judgement.HOLDS


def no_model(folder: Path) -> ModelSettings:
    """A file that looks like a model until somebody reads it."""
    path = folder / "tiny.gguf"
    path.write_bytes(b"GGUF and nothing more")
    return ModelSettings(reference=str(path))
