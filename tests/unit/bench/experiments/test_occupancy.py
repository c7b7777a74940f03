"""Figures from rows of steps; and the quick variant, whose counts have to be those of the real one."""

from dataclasses import replace

import pytest

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.occupancy import EXPERIMENT, OccupancyLab, judge
from arriero.bench.experiments.occupancy_cells import Cell, Setting, arrivals
from arriero.bench.experiments.occupancy_figures import (
    after_ends,
    judge_crowded,
    judge_matched,
    judge_offered,
    occupancy,
)
from arriero.bench.schedule import Loop
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.metrics.validity import judge_validity
from arriero.record.diagnostics import IterRow
from tests.unit.bench.experiments.rows import step
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick

SECOND = 1_000_000_000

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


@pytest.mark.parametrize(
    ("rows", "fault", "judgement"),
    [
        ([FULL, LAST, IDLE], None, Judgement.HOLDS),
        ([FULL, step(rows=3, active=3, waiting=1)], None, Judgement.BROKEN),
        ([FULL], "requests left late", Judgement.OPEN),
    ],
    ids=["full", "somebody waits beside an empty slot", "a late generator"],
)
def test_arrivals_are_judged_unless_their_generator_was_late(
    rows: list[IterRow], fault: str | None, judgement: Judgement
) -> None:
    statement = judge_offered("offered 0.8", rows, slots=4, fault=fault)
    assert statement.judgement is judgement
    assert statement.reason == fault


def life(name: str, text: str = "a", outcome: Outcome = Outcome.LENGTH) -> ClientLife:
    return ClientLife(
        request_id=name, intended_at=None, sent_at=0, closed_at=1, outcome=outcome, asked_tokens=8, text_sha256=text,
    )  # fmt: skip


def cell(name: str, rows: list[IterRow], *lives: ClientLife, clients: int | None = None) -> Cell:
    return Cell(
        name=name,
        clients=clients,
        lives=lives,
        found=occupancy(rows),
        prompt_tokens=1,
        problems=(),
        rows=tuple(rows),
    )


ONE_CLIENT = cell("1 clients", [LAST], life("a"), life("b"), clients=1)
CONFIG = read_definition(definition(EXPERIMENT), OccupancyLab)


def test_answers_of_one_client_must_be_the_same() -> None:
    other = cell("1 clients", [LAST], life("a"), life("b", text="b"), clients=1)
    two = cell("2 clients", [LAST], life("a"), life("b", text="b"), clients=2)
    words = "every answer is the same"
    assert find(list(judge(CONFIG, [ONE_CLIENT, two])), words).judgement is Judgement.HOLDS
    assert find(list(judge(CONFIG, [other])), words).judgement is Judgement.BROKEN
    assert find(list(judge(CONFIG, [two])), words).judgement is Judgement.OPEN


def test_what_lost_cells_would_have_decided_stays_open() -> None:
    statements = list(judge(CONFIG, [ONE_CLIENT]))
    still_open = {each.text.split(":")[0] for each in statements if each.judgement is Judgement.OPEN}
    assert still_open == {
        "crowded", "as many clients as slots", "offered 0.5", "offered 0.8", "offered 0.95", "offered 1.2",
    }  # fmt: skip


def test_failed_requests_and_incomplete_records_of_any_cell_fail() -> None:
    bad = replace(cell("offered 0.5", [LAST], life("a", outcome=Outcome.ERROR)), problems=("1 row is missing",))
    statements = list(judge(CONFIG, [ONE_CLIENT, bad]))
    assert find(statements, "failed, were rejected").measured == 1
    assert find(statements, "incomplete records").measured == 1


def test_cell_whose_generator_was_late_says_so() -> None:
    late = ClientLife(
        request_id="a", intended_at=0, sent_at=SECOND, closed_at=SECOND + 1, outcome=Outcome.LENGTH, asked_tokens=8
    )
    in_time = replace(late, sent_at=1)
    assert "late" in (replace(ONE_CLIENT, validity=judge_validity([late])).fault or "")
    assert replace(ONE_CLIENT, validity=judge_validity([in_time])).fault is None
    assert ONE_CLIENT.fault is None


def test_arrivals_are_a_sealed_open_loop_of_the_rate_that_was_asked_for() -> None:
    setting = Setting(model=CONFIG.model, prompt="p", budget=8, slots=4, slot_tokens=64, threads=1, seed=1)
    schedule = arrivals(setting, (1, 2), rate_per_s=50, requests=1_000)
    times = [each.at_ns for each in schedule.planned if each.at_ns is not None]
    assert schedule.loop is Loop.OPEN
    assert times == sorted(times)
    assert len(times) == 1_000
    assert times[-1] / SECOND == pytest.approx(20, rel=0.1)
    assert schedule.sha256 == arrivals(setting, (1, 2), rate_per_s=50, requests=1_000).sha256


@pytest.mark.slow
def test_quick_variant_finds_every_slot_busy_while_somebody_waits() -> None:
    outcome = run_quick(EXPERIMENT)
    # a generator may be late while other tests keep the machine busy
    assert not_so(outcome.statements, "beside an empty slot") == []
    assert find(outcome.statements, "beside an empty slot").judgement is not Judgement.BROKEN
    assert find(outcome.statements, "mean active while the queue").measured == 4.0
    assert find(outcome.statements, "whose server failed").measured == "0 of 5"
    loads = rows_of(outcome, "Occupancy")
    assert [row["load"] for row in loads] == ["crowded", "matched", "1 clients", "8 clients", "offered 0.8"]
    assert loads[2]["mean active"] == 1
    assert [row["validity"] for row in loads[:4]] == [None] * 4
    assert loads[4]["validity"] in {"valid", "degraded", "invalid"}
    assert set(outcome.raw) == {f"{row['load']}.jsonl".replace(" ", "_") for row in loads}
