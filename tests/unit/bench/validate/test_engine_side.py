"""The measured side on a live engine: a few requests on a backend that takes no time."""

import asyncio

import pytest

from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.bench.validate.engine_side import EngineSide, StepKeeper, decided_again, journal_of
from arriero.bench.validate.loads import held_out, schedule_of
from arriero.engine.engine import Engine
from arriero.engine.options import EngineOptions
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.metrics.client_life import Outcome
from arriero.record.journal_reader import read_lines
from arriero.workload.settings import Vocabulary

SHAPE = SyntheticOptions(num_sequences=3, num_rows=64, micro_batch=64, num_cells=3 * 256)
SCHEDULE = schedule_of(held_out(256)[0], 4000.0, 12, 3, Vocabulary(first_token=1, size=200))


@pytest.mark.parametrize("placement", [Dedicated(), Shared()])
def test_every_request_is_answered_and_every_decision_taken_again(placement: Placement) -> None:
    backend = SyntheticBackend(SHAPE)
    side = EngineSide(backend, EngineOptions(backlog=0), placement=placement, look_s=None)
    first, second = (asyncio.run(side.run(SCHEDULE)) for _ in range(2))
    backend.close()
    for load in (first, second):
        assert [life.outcome for life in load.lives] == [Outcome.LENGTH] * 12, "nobody is refused, whatever the backlog"
        assert (load.decisions.requests, load.decisions.difference) == (12, None)
        assert load.decisions.steps == len(load.steps) > 12
        assert sum(bool(step.plan.rows) for step in load.steps) > 12
    assert [life.num_tokens for life in first.lives] == [life.num_tokens for life in second.lives]


def test_the_setup_is_that_of_the_engines_journal() -> None:
    backend = SyntheticBackend(SHAPE)
    side = EngineSide(backend, EngineOptions(), look_s=None)
    keeper = StepKeeper()
    engine = Engine(backend, EngineOptions(keep_alive=False), observers=[keeper])
    engine.submit((1, 2, 3), 2, end_tokens=frozenset())
    engine.start(Dedicated())
    engine.join()
    start, *_ = (line.record for line in read_lines(journal_of(keeper, side.limits, EngineOptions())))
    assert getattr(start, "setup", None) == side.setup
    assert decided_again(keeper, side.limits, EngineOptions()).difference is None
    backend.close()


def test_a_run_without_a_step_cannot_be_decided_again() -> None:
    found = decided_again(StepKeeper(), SHAPE.limits(), EngineOptions())
    assert found.steps == 0
    assert found.difference is not None
    assert found.difference.startswith("cannot be replayed: ")
