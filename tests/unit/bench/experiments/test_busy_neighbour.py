"""A busy process beside a server: which rounds are compared, and what is judged."""

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.busy_neighbour import (
    EXPERIMENT,
    FIXED,
    YIELDS,
    BusyBeside,
    judge,
    left,
    ratios,
    sides_of,
    table,
)
from arriero.bench.experiments.busy_neighbour_load import NeighbourRun, State, asks_of
from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement, Statement
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick

S = 1_000_000_000
PEER = "llama-server"


def run_of(
    side: str, state: State, number: int = 0, *, seconds: float = 1, cores: float | None = 0.5, threads: float = 2
) -> NeighbourRun:
    life = ClientLife(
        request_id="r", intended_at=None, sent_at=0, closed_at=round(seconds * S), outcome=Outcome.LENGTH,
        asked_tokens=60, num_tokens=60,
    )  # fmt: skip
    had = cores if state is State.BESIDE else None
    return NeighbourRun(side=side, round=number, state=state, lives=(life,), cores=had, threads=threads)


def config(**over: object) -> BusyBeside:
    return replace(read_definition(definition(EXPERIMENT), BusyBeside), **over)


def judged(runs: list[NeighbourRun], *, peer: str | None = PEER) -> list[Statement]:
    return list(judge(config(peer=peer), runs, FailedCells()))


def test_requests_are_the_same_for_every_side_and_others_in_each_state() -> None:
    load = config().load
    asks = asks_of(load, "0-QUIET", 3, seed=1)
    assert asks == asks_of(load, "0-QUIET", 3, seed=1)
    assert asks[0].prompt != asks_of(load, "0-BESIDE", 3, seed=1)[0].prompt
    assert {len(ask.prompt) for ask in asks} == {load.prompt_tokens}


def test_sides_are_compared_in_the_same_round_and_state() -> None:
    runs = [
        run_of(YIELDS, State.BESIDE, 0, seconds=1),
        run_of(PEER, State.BESIDE, 0, seconds=4),
        run_of(YIELDS, State.BESIDE, 1, seconds=1),
        run_of(PEER, State.QUIET, 1, seconds=1),
    ]
    assert ratios(runs, YIELDS, PEER, State.BESIDE) == [4]
    assert ratios(runs, YIELDS, PEER, State.QUIET) == []


def test_what_is_left_is_a_share_of_the_same_servers_quiet_speed() -> None:
    runs = [run_of(PEER, State.QUIET, seconds=1), run_of(PEER, State.BESIDE, seconds=5), run_of(PEER, State.QUIET, 1)]
    assert left(runs, PEER) == [pytest.approx(0.2)]


@pytest.mark.parametrize(
    ("peer_s", "fixed_s", "cores", "expected"),
    [
        (3.0, 1.0, 0.2, ["PASS", "PASS", "PASS"]),
        (2.9, 0.9, 0.1, ["FAIL", "FAIL", "FAIL"]),
    ],
)
def test_ours_is_judged_beside_the_neighbour_only(
    peer_s: float, fixed_s: float, cores: float, expected: list[str]
) -> None:
    runs = [
        run_of(YIELDS, State.BESIDE, seconds=1, cores=cores),
        run_of(FIXED, State.BESIDE, seconds=fixed_s),
        run_of(PEER, State.BESIDE, seconds=peer_s),
        run_of(PEER, State.QUIET, seconds=0.1),
    ]
    statements = judged(runs)
    words = ("output tok/s / llama-server's", "our own with fixed threads", "CPUs that the neighbour had")
    assert [str(find(statements, each).judgement) for each in words] == expected


def test_what_cannot_be_seen_or_was_not_run_stays_open() -> None:
    statements = judged([run_of(YIELDS, State.BESIDE, cores=None)], peer=None)
    for words in ("CPUs that the neighbour had", "output tok/s / llama-server's", "fixed threads"):
        assert find(statements, words).judgement is Judgement.OPEN


def test_table_has_a_row_for_each_side_and_state() -> None:
    runs = [
        run_of(YIELDS, State.QUIET, seconds=1),
        run_of(YIELDS, State.BESIDE, seconds=2, threads=1),
        run_of(PEER, State.BESIDE, seconds=8),
    ]
    found = table(config(), runs)
    rows = [dict(zip(found.heads, row, strict=True)) for row in found.rows]
    assert [(row["side"], row["state"]) for row in rows][:2] == [(YIELDS, "quiet"), (YIELDS, "beside a busy process")]
    assert (rows[1]["/ quiet, median"], rows[1]["/ llama-server, median"], rows[1]["threads at the end"]) == (0.5, 4, 1)
    assert (rows[2]["rounds"], rows[2]["tok/s"]) == (0, None)


def test_our_two_sides_differ_in_threads_that_yield() -> None:
    ours = sides_of(config())
    assert [side.flags for side in ours] == [("--adapt-threads",), ("--no-adapt-threads",)]
    assert [side.name for side in sides_of(config(peer="path"))][2:] == [PEER]


@pytest.mark.slow
def test_quick_variant_has_a_neighbour_that_is_busy() -> None:
    outcome = run_quick(EXPERIMENT)
    assert not_so(outcome.statements, "llama-server", "fixed threads") == []
    rows = rows_of(outcome, "A busy process")
    assert [row["state"] for row in rows] == ["quiet", "beside a busy process"] * 2
    assert rows[0]["neighbour's CPUs"] is None
    assert float(str(rows[1]["neighbour's CPUs"])) > 0
