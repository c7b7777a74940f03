import numpy as np

from arriero.metrics.latency import Life
from arriero.metrics.served import Outcome
from arriero.report.columns import Asked, RequestColumns, RequestTable
from arriero.report.gantt import gantt
from arriero.report.series import Detail
from tests.unit.report.runs import run_view

FIVE = Detail(num_bins=600, num_points=320, num_bars=5)


def columns(*asked: Asked) -> RequestColumns:
    table = RequestTable()
    for each in asked:
        table.add(each)
    return table.columns()


def finished(arrival: int, started: int, *token_at: int) -> Asked:
    life = Life(arrival, started, token_at[0], token_at[-1], len(token_at))
    return Asked(life=life, outcome=Outcome.FINISHED.value, token_at=token_at, prompt_tokens=1)


def test_everybody_is_drawn_if_there_is_room() -> None:
    run = run_view(num=20)
    found = gantt(run.requests, run.ended_at)
    assert found is not None
    assert found.shows_all
    assert [bar.number for bar in found.bars] == list(range(1, 21))


def test_a_bar_has_the_moments_of_its_request() -> None:
    found = gantt(columns(finished(5, 8, 10, 11, 12, 30), finished(6, 7, 9, 10, 11)), 40.0)
    assert found is not None
    first, second = found.bars
    assert (first.arrival, first.started, first.first, first.until) == (5, 8, 10, 30)
    assert [first.stall, second.stall] == [(12, 30), None]
    assert first.is_whole


def test_a_request_without_an_end_lasts_until_the_end_of_the_run_and_a_rejected_one_takes_no_time() -> None:
    waits = Asked(life=Life(4, None, None, None, 0), outcome=Outcome.UNFINISHED.value, token_at=[], prompt_tokens=1)
    refused = Asked(
        life=Life(5, None, None, None, 0), outcome=Outcome.REJECTED.value, token_at=[], prompt_tokens=1, ended_at=5
    )
    found = gantt(columns(waits, refused), 50.0)
    assert found is not None
    assert [(bar.until, bar.is_whole, bar.started) for bar in found.bars] == [(50, False, None), (5, False, None)]
    assert (found.counts_waiting, found.num_at_busiest) == (True, 1)


def test_of_many_those_around_the_longest_queue_are_drawn() -> None:
    quiet = [finished(at, at, at + 5) for at in range(0, 1_000, 10)]
    crowd = [finished(2_000 + number, 3_000 + number, 4_000 + number) for number in range(20)]
    late = [finished(at, at, at + 5) for at in range(6_000, 7_000, 10)]
    found = gantt(columns(*quiet, *crowd, *late), 7_000.0, FIVE)
    assert found is not None
    assert found.num_at_busiest == 20
    assert 2_000 <= found.busiest_at < 3_000
    assert [bar.number for bar in found.bars] == [117, 118, 119, 120, 121]
    assert not found.shows_all


def test_if_nobody_waits_the_most_running_are_looked_for() -> None:
    alone = [finished(at, at, at + 5) for at in range(0, 100, 10)]
    together = [finished(500, 500, 600) for _ in range(7)]
    found = gantt(columns(*alone, *together), 600.0, FIVE)
    assert found is not None
    assert not found.counts_waiting
    assert (found.num_at_busiest, found.busiest_at) == (7, 500)


def test_nobody_gives_no_figure() -> None:
    assert gantt(columns(), 10.0) is None


def test_every_bar_of_a_random_run_keeps_the_order_of_its_moments() -> None:
    run = run_view(num=300, seed=4)
    found = gantt(run.requests, run.ended_at)
    assert found is not None
    assert len(found.bars) == 64
    arrivals = [bar.arrival for bar in found.bars]
    assert arrivals == sorted(arrivals)
    for bar in found.bars:
        moments = [at for at in (bar.arrival, bar.started, bar.first, bar.until) if at is not None]
        assert moments == sorted(moments)
        assert not np.isnan(moments).any()
