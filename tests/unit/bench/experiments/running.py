"""Run an experiment as its definition says, and read its statements."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Experiment, Judgement, Outcome, Statement

DEFINITIONS = Path(__file__).resolve().parents[4] / "definitions" / "experiments"


def definition(experiment: Experiment[Any]) -> Path:
    return DEFINITIONS / f"{experiment.name}.toml"


def run_quick(experiment: Experiment[Any]) -> Outcome:
    config = read_definition(definition(experiment), experiment.config, quick=True)
    return experiment.run(config, lambda _: None)


def find(statements: Sequence[Statement], words: str) -> Statement:
    (found,) = (each for each in statements if words in each.text)
    return found


def not_so(statements: Sequence[Statement], *but: str) -> list[str]:
    """Statements that do not hold, those whose text holds one of the words left out."""
    return [
        f"{each.text}: {each.measured}, {each.bound}"
        for each in statements
        if each.judgement is not Judgement.HOLDS and not any(word in each.text for word in but)
    ]


def rows_of(outcome: Outcome, title: str) -> list[dict[str, object]]:
    (table,) = (each for each in outcome.tables if each.title.startswith(title))
    return [dict(zip(table.heads, row, strict=True)) for row in table.rows]
