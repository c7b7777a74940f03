"""The pool, and both of its experiments, small, on the real model."""

from pathlib import Path

import msgspec
import pytest

from arriero.bench.experiments.contexts import ModelSettings, open_model
from arriero.bench.experiments.experiment import Statement
from arriero.bench.experiments.fifo_pool_against_engine import PoolAgainstEngineConfig, PoolShape
from arriero.bench.experiments.fifo_pool_against_engine import run as run_pool_against_engine
from arriero.bench.experiments.mixed_decode import MixedCase, MixedDecodeConfig
from arriero.bench.experiments.mixed_decode import run as run_mixed_decode

pytestmark = [pytest.mark.model, pytest.mark.slow]


def not_so(statements: tuple[Statement, ...], *but: str) -> list[str]:
    return [
        f"{each.text}: {each.measured}"
        for each in statements
        if not each.holds and not any(w in each.text for w in but)
    ]


def test_a_pool_against_an_engine_small(short_path: Path) -> None:
    config = PoolAgainstEngineConfig(
        model=ModelSettings(reference=str(short_path)),
        prompt_tokens=6,
        num_rows=64,
        warm_up_rounds=0,
        calls_tolerance=0.15,
        control_budgets=[3, 6],
        seed=1,
        shapes=[
            PoolShape(name="small", contexts=2, concurrent=4, requests=8, budgets=[8, 4], engine_threads=1, rounds=2)
        ],
    )
    outcome = run_pool_against_engine(config, lambda _: None)
    assert not_so(outcome.statements) == []
    sides = next(table for table in outcome.tables if table.title.startswith("Each side"))
    kv_bytes = {row[sides.heads.index("KV bytes")] for row in sides.rows}
    assert kv_bytes == {2 * 256 * 3 * 3 * (64 + 64) * 2}  # cells, layers, KV heads, keys and values, 16 bits


def test_decisions_are_the_same_on_the_real_model_and_in_the_simulator_small(short_path: Path) -> None:
    config = MixedDecodeConfig(
        model=ModelSettings(reference=str(short_path)),
        prompt_tokens=6,
        threads=1,
        repeats=2,
        seed=1,
        makespan_tolerance=0.5,
        cases=[
            MixedCase(name="slots", slots=3, requests=9, budgets=[4, 12, 24], num_rows=64),
            MixedCase(name="at once", slots=9, requests=9, budgets=[4, 12, 24], num_rows=64),
        ],
    )
    outcome = run_mixed_decode(config, lambda _: None)
    # times mean nothing beside other tests
    assert not_so(outcome.statements, "makespan") == []


def test_facts_name_the_model_file_and_no_folder() -> None:
    with open_model(ModelSettings()) as source:
        facts = msgspec.to_builtins(source.facts())
    assert facts["model_file"].endswith(".gguf")
    assert "/" not in facts["model_file"]
    assert len(facts["model_sha256"]) == 64
    assert facts["kv_bytes_per_cell"] == 23_040
