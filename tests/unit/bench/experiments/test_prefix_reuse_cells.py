"""How many prompt rows a cell computed: from our own rows, or as the peer tells."""

import pytest

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.prefix_reuse import W_CHAT, PrefixReuse, judge
from arriero.bench.experiments.prefix_reuse_cells import Answered, Cell, Way
from arriero.bench.experiments.prefix_reuse_workloads import Turn, Workload
from arriero.bench.experiments.served import ServerLog
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.rows import request_row, summary_row
from tests.unit.bench.experiments.running import definition, find


def life(name: str, cached: int | None) -> ClientLife:
    return ClientLife(
        request_id=name, intended_at=None, sent_at=0, closed_at=1, outcome=Outcome.LENGTH, asked_tokens=4,
        prompt_tokens=100, cached_tokens=cached,
    )  # fmt: skip


def cell(way: Way, *lives: ClientLife, log: ServerLog | None = None) -> Cell:
    answers = tuple(
        Answered(turn=Turn(name=each.request_id, session="s", text=""), prompt="p", text="t", life=each)
        for each in lives
    )
    return Cell(way=way, round=0, interleaved=1, answers=answers, log=log)


def test_our_own_rows_count_what_was_computed() -> None:
    rows = (request_row("a"), request_row("b"), request_row("warm-up"))
    log = ServerLog(steps=(), requests=rows, summary=None, num_missing=0)
    assert cell(Way.OFF, life("a", None), life("b", None), log=log).prefill_rows() == 10


def test_peer_is_believed_and_one_that_does_not_tell_is_undefined() -> None:
    assert cell(Way.PEER, life("a", 0), life("b", 90)).prefill_rows() == 110
    assert cell(Way.PEER, life("a", 0), life("b", None)).prefill_rows() is None


@pytest.mark.parametrize(
    ("log", "count"),
    [
        (ServerLog(steps=(), requests=(request_row("a"),), summary=summary_row(), num_missing=0), 0),
        (ServerLog(steps=(), requests=(request_row("a"),), summary=summary_row(), num_missing=2), 1),
        (ServerLog(steps=(), requests=(), summary=summary_row(), num_missing=0), 1),
        (None, 0),
    ],
    ids=["complete", "missing rows", "an answer without a row", "the peer"],
)
def test_incomplete_records_fail(log: ServerLog | None, count: int) -> None:
    config = read_definition(definition(W_CHAT), PrefixReuse, quick=True)
    cells = [cell(Way.OFF, life("a", None), log=log)]
    found = find(list(judge(Workload.CHAT, config, cells, [])), "incomplete records")
    assert found.measured == count
    assert found.holds == (count == 0)
