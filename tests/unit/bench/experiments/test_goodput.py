"""Goodput: arrivals that are the same for every side, the best rate of each, and what is judged."""

from dataclasses import replace as with_fields
from itertools import islice

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.goodput import EXPERIMENT, GoodputLab, goodput, judge, sides_of, table
from arriero.bench.experiments.goodput_load import GoodputCell, Mix, Objectives, asks_of, schedule_of
from arriero.bench.loops import LoopRun
from arriero.bench.runner_points import PointRun, Rules, measure
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick

MS = 1_000_000
S = 1_000_000_000
PEER = "llama-server"


def config(**over: object) -> GoodputLab:
    return replace(read_definition(definition(EXPERIMENT), GoodputLab), **over)


def mix() -> Mix:
    return config().mix


OURS = sides_of(config())[0].name


def cell(
    side: str, share: float, number: int = 0, *, good: int = 10, bad: int = 0, outcome: Outcome = Outcome.LENGTH,
    lag_ms: int = 0,
) -> GoodputCell:  # fmt: skip
    """A cell of ten seconds with so many answers within the objectives, and others whose first token came late."""
    gaps = [*([100] * good), *([5_000] * bad)]
    step = 9 * S // max(1, len(gaps))
    lives = tuple(
        ClientLife(
            request_id=f"{index}", intended_at=index * step, sent_at=index * step + lag_ms * MS,
            chunk_at=(index * step + wait * MS,), chunk_tokens=(1,), num_tokens=1,
            closed_at=index * step + wait * MS, outcome=outcome, asked_tokens=1,
        )
        for index, wait in enumerate(gaps)
    )  # fmt: skip
    schedule = schedule_of(mix(), rate_per_s=1, seconds=10, name="x", seed=1)
    run = PointRun(schedule=schedule, came=LoopRun(lives=lives, began_at=0, stopped_at=10 * S, ended_at=20 * S))
    point = measure(run, Rules(slos=Objectives(ttft_ms=2000, gap_ms=200).slos))
    return GoodputCell(side=side, share=share, round=number, point=point)


def test_arrivals_are_the_same_for_every_side_and_end_in_time() -> None:
    schedule = schedule_of(mix(), rate_per_s=20, seconds=5, name="0-1", seed=1)
    assert schedule.sha256 == schedule_of(mix(), rate_per_s=20, seconds=5, name="0-1", seed=1).sha256
    assert schedule.sha256 != schedule_of(mix(), rate_per_s=20, seconds=5, name="1-1", seed=1).sha256
    times = [item.at_ns for item in schedule.planned if item.at_ns is not None]
    assert times == sorted(times)
    assert len(times) == len(schedule.planned)
    assert max(times) < 5 * S
    assert 60 < len(times) < 160


def test_kinds_come_by_their_weights_with_lengths_in_their_bounds() -> None:
    asks = list(islice(asks_of(mix(), "x", seed=1), 400))
    kinds = {kind.name: kind for kind in mix().kinds}
    found = {name: [ask for ask in asks if f"-{name}-" in ask.request_id] for name in kinds}
    assert 20 < len(found["long"]) < 70
    for name, kind in kinds.items():
        assert all(kind.prompt_low <= len(ask.prompt) <= kind.prompt_high for ask in found[name])
        assert all(kind.output_low <= ask.max_tokens <= kind.output_high for ask in found[name])


def test_bounds_the_wrong_way_round_are_refused() -> None:
    short = replace(mix().kinds[0], output_low=99, output_high=98)
    with pytest.raises(ConfigError, match="short: output_low is above output_high"):
        replace(mix(), kinds=(short,)).check()


def test_an_answer_is_good_within_both_objectives() -> None:
    slos = Objectives(ttft_ms=2000, gap_ms=200).slos
    assert (slos.ttft_ns, slos.largest_gap_ns, slos.tpot_ns, slos.e2e_ns) == (2000 * MS, 200 * MS, None, None)
    assert cell(OURS, 1, good=5, bad=4).good_per_s == 0.5


def test_rounds_are_medians_and_a_late_generator_does_not_count() -> None:
    cells = [cell(OURS, 1, number, good=good) for number, good in enumerate((10, 20, 30))]
    assert goodput(cells, OURS, 1) == 2
    late = cell(OURS, 1, 3, good=90, lag_ms=60)
    assert not late.is_valid
    assert goodput([*cells, late], OURS, 1) == 2
    assert find(list(judge(config(), [late], FailedCells())), "generator was late").judgement is Judgement.BROKEN


@pytest.mark.parametrize(("ours", "expected"), [(30, Judgement.HOLDS), (29, Judgement.BROKEN)])
def test_each_server_is_judged_at_its_own_best_rate_and_setting(ours: int, expected: Judgement) -> None:
    cells = [
        cell(OURS, 0.5, good=5), cell(OURS, 1.25, good=ours),
        cell(PEER, 0.5, good=10), cell(PEER, 1.25, good=1),
        cell(f"{PEER} -b 64 -ub 64", 0.5, good=20),
        cell("arriero --another", 0.5, good=90),  # only the first of our settings is judged
    ]  # fmt: skip
    assert find(list(judge(config(peer=PEER), cells, FailedCells())), "goodput").judgement is expected


def test_without_the_other_side_or_anything_good_nothing_is_decided() -> None:
    for cells, reason in (
        ([cell(OURS, 1)], "no cell of llama-server was measured"),
        ([cell(PEER, 1)], "no cell of ours was measured"),
        ([cell(OURS, 1), cell(PEER, 1, good=0, bad=5)], "llama-server answered nothing within the objectives"),
    ):
        found = find(list(judge(config(peer=PEER), cells, FailedCells())), "goodput")
        assert (found.judgement, found.reason) == (Judgement.OPEN, reason)


def test_refusals_are_no_failure_and_everything_else_is() -> None:
    def bad(outcome: Outcome) -> object:
        statements = list(judge(config(), [cell(OURS, 1, good=3, outcome=outcome)], FailedCells()))
        return find(statements, "neither ended well nor were rejected").measured

    assert (bad(Outcome.REJECTED), bad(Outcome.TIMEOUT), bad(Outcome.ERROR)) == (0, 3, 3)


def test_table_stands_by_rate() -> None:
    cells = [cell(OURS, 1, good=10, bad=10), cell(PEER, 0.5), cell(OURS, 0.5)]
    found = table(config(), cells)
    rows = [dict(zip(found.heads, row, strict=True)) for row in found.rows]
    assert [(row["side"], row["rate / capacity"]) for row in rows] == [(PEER, 0.5), (OURS, 0.5), (OURS, 1)]
    assert (rows[2]["good / submitted"], rows[2]["served"]) == (0.5, 1)


def test_an_incomplete_record_fails_the_run() -> None:
    broken = with_fields(cell(OURS, 1), problems=("KV was left at the end",))
    statements = list(judge(config(), [broken], FailedCells()))
    assert find(statements, "incomplete records").judgement is Judgement.BROKEN


@pytest.mark.slow
def test_quick_variant_answers_within_its_objectives() -> None:
    outcome = run_quick(EXPERIMENT)
    assert not_so(outcome.statements, "llama-server", "generator was late") == []
    (row,) = rows_of(outcome, "Goodput")
    assert row["rate / capacity"] == 0.5
    assert float(str(row["served"])) == 1
    assert float(str(outcome.facts["capacity_per_s"])) > 0
