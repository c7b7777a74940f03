"""Throughput of a closed loop: what is explained by busy slots, and the quick variant without a peer."""

import pytest

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.prometheus import SlotCounts
from arriero.bench.experiments.sides import OURS, THEIRS
from arriero.bench.experiments.throughput import EXPERIMENT, Load, Throughput, judge
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.running import definition, find, rows_of, run_quick

SECOND = 1_000_000_000


def load(server: str, *, seconds: float, busy: float, calls: float = 100) -> Load:
    life = ClientLife(
        request_id="r", intended_at=None, sent_at=0, closed_at=int(seconds * SECOND), outcome=Outcome.LENGTH,
        asked_tokens=100, num_tokens=100,
    )  # fmt: skip
    return Load(server=server, clients=2, round=0, lives=(life,), counts=SlotCounts(calls, busy * calls))


def config(peer: str | None = None) -> Throughput:
    over = {} if peer is None else {"peer": peer}
    return read_definition(definition(EXPERIMENT), Throughput, over=over)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (load(OURS, seconds=2, busy=1), Judgement.HOLDS),  # half the tokens with half the busy slots
        (load(OURS, seconds=1, busy=2), Judgement.HOLDS),
        (load(OURS, seconds=2, busy=2), Judgement.BROKEN),  # half the tokens with as many busy slots
    ],
)
def test_difference_is_explained_by_busy_slots_or_not(ours: Load, expected: Judgement) -> None:
    loads = [ours, load(THEIRS, seconds=1, busy=2)]
    assert judge(config(peer="llama-server"), loads, 2).judgement is expected


def test_without_a_peer_nothing_is_decided() -> None:
    statement = judge(config(), [load(OURS, seconds=1, busy=2)], 2)
    assert statement.judgement is Judgement.OPEN
    assert "--peer" in (statement.reason or "")


@pytest.mark.slow
def test_quick_variant_counts_busy_slots_of_a_closed_loop() -> None:
    outcome = run_quick(EXPERIMENT)
    assert outcome.judgement is Judgement.OPEN
    assert find(outcome.statements, "failed").judgement is Judgement.HOLDS
    rows = rows_of(outcome, "Throughput")
    assert [(row["clients"], row["server"]) for row in rows] == [(1, "arriero"), (2, "arriero")]
    assert rows[0]["mean active"] == 1
    assert 1 < float(str(rows[1]["mean active"])) <= 2
