from pathlib import Path
from typing import Any

import pytest

from arriero.bench.experiments.busy_neighbour import EXPERIMENT as BUSY_NEIGHBOUR
from arriero.bench.experiments.cache_timing import EXPERIMENT as CACHE_TIMING
from arriero.bench.experiments.cold_fan_out import EXPERIMENT as COLD_FAN_OUT
from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.end_to_end import EXPERIMENT as END_TO_END
from arriero.bench.experiments.experiment import Experiment
from arriero.bench.experiments.goodput import EXPERIMENT as GOODPUT
from arriero.bench.experiments.holes import EXPERIMENT as HOLES
from arriero.bench.experiments.interference import EXPERIMENT as INTERFERENCE
from arriero.bench.experiments.long_prompts import EXPERIMENT as LONG_PROMPTS
from arriero.bench.experiments.occupancy import EXPERIMENT as OCCUPANCY
from arriero.bench.experiments.prefix_reuse import W_CHAT, W_CONTROL, W_LONG_SYS, W_REPEAT_PREFIX
from arriero.bench.experiments.responsiveness import EXPERIMENT as RESPONSIVENESS
from arriero.bench.experiments.semantics import EXPERIMENT as SEMANTICS
from arriero.bench.experiments.shared_burst import EXPERIMENT as SHARED_BURST
from arriero.bench.experiments.throughput import EXPERIMENT as THROUGHPUT
from arriero.cli.bench.experiment import EXPERIMENTS
from arriero.core.errors import ConfigError, DataError
from tests.unit.bench.experiments.running import definition

PREFIXES: list[Experiment[Any]] = [W_CHAT, W_LONG_SYS, W_REPEAT_PREFIX, W_CONTROL, SHARED_BURST, COLD_FAN_OUT, HOLES]
CONTROL: list[Experiment[Any]] = [LONG_PROMPTS, BUSY_NEIGHBOUR, GOODPUT]
ALL: list[Experiment[Any]] = [
    RESPONSIVENESS, END_TO_END, SEMANTICS, INTERFERENCE, THROUGHPUT, OCCUPANCY, *PREFIXES, CACHE_TIMING, *CONTROL,
]  # fmt: skip
IDS = [each.name for each in ALL]
WITH_PEER: list[Experiment[Any]] = [SEMANTICS, THROUGHPUT, *PREFIXES, *CONTROL]


@pytest.mark.parametrize("experiment", ALL, ids=IDS)
def test_definition_holds_both_variants_and_its_quick_one_needs_no_model(experiment: Experiment[Any]) -> None:
    path = definition(experiment)
    assert read_definition(path, experiment.config).model.backend == "llama"
    assert read_definition(path, experiment.config, quick=True).model.backend == "synthetic"


@pytest.mark.parametrize("experiment", ALL, ids=IDS)
def test_experiment_says_what_decides_and_stands_in_the_table_of_the_command(experiment: Experiment[Any]) -> None:
    assert all((experiment.decides, experiment.metric, experiment.comparison, experiment.difference))
    assert EXPERIMENTS[experiment.name].number == experiment.number


@pytest.mark.parametrize("experiment", ALL, ids=IDS)
def test_definition_with_an_unknown_key_is_refused(experiment: Experiment[Any], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("colour = 1\n" + definition(experiment).read_text())
    with pytest.raises(DataError, match="colour"):
        read_definition(path, experiment.config)


@pytest.mark.parametrize("experiment", WITH_PEER, ids=[each.name for each in WITH_PEER])
def test_peer_beside_a_formula_is_refused_since_it_has_no_model_file(experiment: Experiment[Any]) -> None:
    config = read_definition(definition(experiment), experiment.config, quick=True, over={"peer": "llama-server"})
    with pytest.raises(ConfigError, match="--peer"):
        experiment.run(config, lambda _: None)


@pytest.mark.parametrize("experiment", WITH_PEER, ids=[each.name for each in WITH_PEER])
def test_peer_that_is_not_there_is_told_before_anything_runs(experiment: Experiment[Any]) -> None:
    config = read_definition(definition(experiment), experiment.config, over={"peer": "no-such-llama-server"})
    with pytest.raises(ConfigError, match="--peer no-such-llama-server: there is no such program"):
        experiment.run(config, lambda _: None)
