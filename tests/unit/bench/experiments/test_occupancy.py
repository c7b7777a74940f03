"""Figures from rows of steps; and the quick variant, whose counts have to be those of the real one."""

import pytest

from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.occupancy import EXPERIMENT
from arriero.bench.experiments.occupancy_figures import after_ends, judge_crowded, judge_matched, occupancy
from arriero.record.diagnostics import IterRow
from tests.unit.bench.experiments.rows import step
from tests.unit.bench.experiments.running import find, not_so, rows_of, run_quick

FULL = step(rows=4, active=4, waiting=3, wall_us=1_000)
LAST = step(rows=2, active=2, wall_us=1_000)
IDLE = step(rows=0, wall_us=10, idle_us=3_990)


def test_means_are_over_steps_with_rows_and_time_counts_pauses() -> None:
    found = occupancy([FULL, FULL, FULL, LAST, IDLE])
    assert (found.steps, found.queued_steps, found.rows) == (4, 3, 14)
    assert found.mean_active == 3.5
    assert found.mean_active_queued == 4
    assert found.queue_share == 0.75
    assert found.active_in_time == pytest.approx(14_000 / 8_000)


def test_nothing_computed_has_no_means() -> None:
    found = occupancy([IDLE])
    assert (found.mean_active, found.mean_active_queued, found.queue_share) == (None, None, None)


def test_warm_up_ends_with_the_step_in_which_its_requests_ended() -> None:
    rows = [step(rows=1), step(rows=1, completed=1), step(rows=0), FULL, LAST]
    assert after_ends(rows, 1) == rows[2:]
    assert after_ends(rows, 0) == rows
    assert after_ends(rows, 2) == []


def crowded(rows: list[IterRow], requests: int) -> list[Judgement]:
    found = occupancy(rows)
    return [each.judgement for each in judge_crowded(found, slots=4, requests=requests, budget=8, prompt_tokens=1)]


def test_crowded_cell_that_keeps_every_slot_busy_passes() -> None:
    assert set(crowded([FULL] * 100, requests=50)) == {Judgement.HOLDS}


@pytest.mark.parametrize(
    ("bad", "index"),
    [
        (step(rows=4, active=3, waiting=1), 0),  # somebody waits beside an empty slot
        (step(rows=4, active=4, waiting=0), 1),
    ],
)
def test_crowded_cell_with_an_empty_slot_or_without_a_queue_fails(bad: IterRow, index: int) -> None:
    assert crowded([FULL] * 90 + [bad] * 10, requests=50)[index] is Judgement.BROKEN


def test_crowded_cell_with_more_steps_or_other_rows_than_the_closed_form_fails() -> None:
    assert crowded([FULL] * 102, requests=50)[2:] == [Judgement.BROKEN, Judgement.BROKEN]


def test_as_many_clients_as_slots_have_no_queue_and_emptier_slots() -> None:
    full, emptier = occupancy([FULL]), occupancy([LAST])
    assert {each.judgement for each in judge_matched(emptier, full)} == {Judgement.HOLDS}
    assert {each.judgement for each in judge_matched(full, full)} == {Judgement.BROKEN}


@pytest.mark.slow
def test_quick_variant_finds_every_slot_busy_while_somebody_waits() -> None:
    outcome = run_quick(EXPERIMENT)
    assert not_so(outcome.statements) == []
    assert find(outcome.statements, "mean active while the queue").measured == 4.0
    loads = rows_of(outcome, "Occupancy")
    assert [row["load"] for row in loads] == ["crowded", "matched", "1 clients", "8 clients", "offered 0.8"]
    assert loads[2]["mean active"] == 1
    assert set(outcome.raw) == {f"{row['load']}.jsonl".replace(" ", "_") for row in loads}
