from dataclasses import replace

import msgspec
import pytest

from arriero.core.ids import RequestId
from arriero.costmodel.passes import Stretch
from arriero.kv.reuse import ReuseRules
from arriero.metrics.client_life import Outcome
from arriero.record.sim_rows import SimRequestRow
from arriero.record.simulation_config import SimulationConfig
from arriero.scheduler.backlog import BacklogLimits
from arriero.sim.asked import asked_of
from arriero.sim.own_run import run_simulation
from arriero.sim.own_setup import own_setup
from arriero.sim.synthetic_runs import END
from arriero.sim.whatif import simulate
from arriero.workload.notes import Notes, as_metadata
from arriero.workload.records import WorkloadRecord
from tests.equivalence.lab_worlds import record
from tests.unit.bench.test_simulated import config
from tests.unit.sim.whatif_rig import CALIBRATED, LINEAR, asked, one, setup_of

US = 1000
CROWD = asked(*((1500 * number, 5 + 11 * number % 90, 3 + number % 9) for number in range(24)))


def test_it_is_the_simulator_of_the_own_mode() -> None:
    records = [record(f"r{number:02d}", 700 * number, 10 + 7 * number % 60, 4 + number % 7) for number in range(30)]
    own = config(kv={"kind": "cells", "num_cells": 110, "sequence_limit": 90, "headroom_per_sequence": 0})
    rows = [row for row in run_simulation(own, records) if isinstance(row, SimRequestRow)]
    load = simulate(own_setup(own), LINEAR, asked_of(records, with_tokens=False), check=True)
    assert len(load.lives) == 30
    assert load.num_preemptions == sum(row.preemptions for row in rows)
    assert any(row.preemptions for row in rows), "memory is scarce here"
    for life, row in zip(load.lives, rows, strict=True):
        assert (life.request_id, life.sent_at) == (row.request_id, row.arrival_at_us * US)
        assert life.chunk_at == tuple(at * US for at in row.token_at_us)
        assert life.closed_at == (row.finished_at_us or 0) * US
        assert life.outcome is Outcome.LENGTH


def own_chunks(own: SimulationConfig, records: list[WorkloadRecord]) -> list[tuple[int, ...]]:
    """When tokens come in the simulator of the own mode, by request."""
    rows = [row for row in run_simulation(own, records) if isinstance(row, SimRequestRow)]
    return [tuple(at * US for at in row.token_at_us) for row in rows]


@pytest.mark.parametrize("policy", ["priority", "deadline", "fair-share"])
def test_who_goes_first_is_as_in_the_own_mode(policy: str) -> None:
    records = [
        msgspec.structs.replace(
            record(f"r{number:02d}", 700 * number, 10 + 7 * number % 60, 4 + number % 7),
            deadline_us=10_000 * (1 + 13 * number % 17),
            metadata=as_metadata(Notes(priority=7 * number % 5, tenant="b" if number % 4 == 3 else "a")),
        )
        for number in range(30)
    ]
    own = config(policy=policy)
    load = simulate(own_setup(own), LINEAR, asked_of(records, with_tokens=False), check=True)
    assert [life.chunk_at for life in load.lives] == own_chunks(own, records)
    assert own_chunks(own, records) != own_chunks(config(), records), "first come, first served would do as well"


def test_equal_steps_that_are_taken_in_one_change_nothing() -> None:
    single = replace(LINEAR, context_token=1e-12)  # too little to move a time, and enough to forbid jumps
    jumped, stepped = simulate(setup_of(), LINEAR, CROWD), simulate(setup_of(), single, CROWD)
    assert jumped == stepped
    assert jumped.num_steps > 30
    assert jumped.decode_rows == sum(each.request.max_tokens - 1 for each in CROWD)
    assert jumped.prefill_rows == sum(len(each.request.prompt) for each in CROWD)


def test_a_calibrated_cost_moves_the_clock_by_the_rows() -> None:
    load = simulate(setup_of(), CALIBRATED, asked((0, 10, 3)))
    (life,) = load.lives
    first = CALIBRATED.time([_stretch(0, 10)])
    second = CALIBRATED.time([_stretch(10, 1)])
    assert life.chunk_at[0] == first * US
    assert life.chunk_at[1] - life.chunk_at[0] == second * US
    assert load.busy_us == load.ended_at_us


def _stretch(start: int, rows: int) -> Stretch:
    return Stretch(0, start, rows, wants_logits=True)


def test_a_follower_is_sent_after_the_end_and_its_pause() -> None:
    turns = (one(1, 0, 8, 4), one(2, 0, 8, 4, follows=RequestId(1), think_us=50_000))
    first, second = simulate(setup_of(), LINEAR, turns).lives
    assert second.sent_at == (first.closed_at or 0) + 50_000 * US
    assert second.outcome is Outcome.LENGTH


def test_nobody_follows_what_was_refused() -> None:
    turns = (one(1, 0, 5000, 4), one(2, 0, 8, 4, follows=RequestId(1), think_us=5), one(3, 9, 8, 4))
    first, second, other = simulate(setup_of(), LINEAR, turns).lives
    assert (first.outcome, first.error) == (Outcome.ERROR, "context_too_long")
    assert (second.outcome, second.sent_at) == (Outcome.NOT_SENT, None)
    assert other.outcome is Outcome.LENGTH


def test_a_client_that_gives_up_frees_its_place_at_the_next_boundary() -> None:
    work = (one(1, 0, 8, 100, cancel_after_us=10_000), one(2, 0, 8, 4))
    first, second = simulate(setup_of(sequences=1), LINEAR, work).lives
    assert first.outcome is Outcome.CANCELLED_BY_CLIENT
    assert 10_000 <= (first.closed_at or 0) / US < 12_000
    assert 5 < len(first.chunk_at) < 12
    assert (second.chunk_at[0]) > (first.closed_at or 0)


def test_patience_beyond_the_answer_changes_nothing() -> None:
    patient = (one(1, 0, 8, 4, cancel_after_us=10**9),)
    load = simulate(setup_of(), LINEAR, patient)
    assert load == simulate(setup_of(), LINEAR, asked((0, 8, 4)))
    assert load.ended_at_us < 10_000


def test_an_answer_that_ends_itself_is_as_long_as_it_was() -> None:
    ended = one(1, 0, 8, 50, answer=(7, 7, END), end_tokens=frozenset({END}))
    (life,) = simulate(setup_of(), LINEAR, (ended,)).lives
    assert (life.outcome, len(life.chunk_at)) == (Outcome.STOP, 2)
    assert life.closed_at == life.chunk_at[-1] + 1100 * US, "the end token takes a step of its own"


def test_known_prompts_find_what_was_computed_before() -> None:
    setup = setup_of(sequences=2, retained=2, reuse=ReuseRules(), cells=4096)
    prompt = tuple(range(100, 160))
    load = simulate(setup, LINEAR, (one(1, 0, prompt, 3), one(2, 10**6, (*prompt, 5), 3)), check=True)
    assert [life.cached_tokens for life in load.lives] == [0, 60]


@pytest.mark.parametrize(("looks", "expected"), [(True, {"context"}), (False, set())])
def test_steps_beyond_the_calibrated_range_are_counted_if_asked_for(looks: bool, expected: set[str]) -> None:  # noqa: FBT001
    near = replace(CALIBRATED, valid=replace(CALIBRATED.valid, context=40))
    load = simulate(setup_of(), near, asked((0, 30, 20)), looks_outside=looks)
    assert set(load.outside) == expected
    if looks:
        assert load.outside["context"] == 9, "tokens at positions from 40 on"


def test_a_door_refuses_whom_it_has_no_place_for() -> None:
    work = (one(1, 0, 8, 20), one(2, 100, 8, 20), one(3, 200, 8, 20), one(4, 10**6, 8, 20))
    door = BacklogLimits(sequences=1, waiting=1)
    lives = simulate(setup_of(sequences=1), LINEAR, work, door=door).lives
    assert [life.outcome for life in lives] == [Outcome.LENGTH, Outcome.LENGTH, Outcome.REJECTED, Outcome.LENGTH]
    assert (lives[2].sent_at, lives[2].closed_at, lives[2].error) == (200 * US, 200 * US, "queue_full")
