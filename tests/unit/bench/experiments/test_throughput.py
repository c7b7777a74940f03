"""Throughput of a closed loop: what is explained by busy slots, and the quick variant without a peer."""

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.prometheus import SlotCounts
from arriero.bench.experiments.sides import OURS, THEIRS
from arriero.bench.experiments.throughput import EXPERIMENT, Load, Throughput, judge, judge_texts, table
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.running import definition, find, rows_of, run_quick

SECOND = 1_000_000_000


def load(
    server: str, *, seconds: float = 1, busy: float = 1, calls: float = 100, clients: int = 2, text: str = "a"
) -> Load:
    life = ClientLife(
        request_id="r", intended_at=None, sent_at=0, closed_at=int(seconds * SECOND), outcome=Outcome.LENGTH,
        asked_tokens=100, num_tokens=100, text_sha256=text,
    )  # fmt: skip
    return Load(server=server, clients=clients, round=0, lives=(life,), counts=SlotCounts(calls, busy * calls))


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


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([load(OURS, clients=1), load(OURS, clients=1)], Judgement.HOLDS),
        ([load(OURS, clients=1), load(OURS, clients=1, text="b")], Judgement.BROKEN),
        ([load(OURS, clients=1), load(OURS, clients=2, text="b"), load(THEIRS, clients=1, text="c")], Judgement.HOLDS),
        ([load(OURS, clients=2)], Judgement.OPEN),
    ],
    ids=["same", "another text", "in company, or the peer's", "nobody alone"],
)
def test_answers_of_one_client_must_be_the_same(loads: list[Load], expected: Judgement) -> None:
    assert judge_texts(loads).judgement is expected


def test_ratios_stand_to_the_fewest_clients_and_what_is_not_known_is_no_zero() -> None:
    setting = replace(config(), clients=(4, 2))
    found = table(setting, [load(OURS, seconds=1, clients=4), load(OURS, seconds=2, calls=0)])
    four, two = (dict(zip(found.heads, row, strict=True)) for row in found.rows)
    assert (four["/ 2 clients"], two["/ 2 clients"]) == (2, 1)
    assert four["mean active x decode calls/s"] == 100
    assert two["mean active"] is None
    assert two["mean active x decode calls/s"] is None


@pytest.mark.slow
def test_server_that_fails_loses_its_cell_only() -> None:
    whole = read_definition(definition(EXPERIMENT), Throughput, quick=True)
    outcome = EXPERIMENT.run(replace(whole, clients=(1, 5_000)), lambda _: None)  # no call has rows for so many slots
    failed = find(outcome.statements, "whose server failed")
    assert failed.judgement is Judgement.BROKEN
    assert str(failed.measured).startswith("1 of 2, such as round 1 of 1, 5000 clients, arriero: ")
    assert list(outcome.facts["failed_cells"]) == ["round 1 of 1, 5000 clients, arriero"]
    one, many = rows_of(outcome, "Throughput")
    assert (one["mean active"], one["texts"]) == (1, 1)
    assert (many["tok/s"], many["texts"]) == (None, 0)
    assert find(outcome.statements, "1 client: our answers").judgement is Judgement.HOLDS


@pytest.mark.slow
def test_quick_variant_counts_busy_slots_of_a_closed_loop() -> None:
    outcome = run_quick(EXPERIMENT)
    assert outcome.judgement is Judgement.OPEN
    assert find(outcome.statements, "failed, were rejected").judgement is Judgement.HOLDS
    assert find(outcome.statements, "whose server failed").measured == "0 of 2"
    assert find(outcome.statements, "1 client: our answers").judgement is Judgement.HOLDS
    rows = rows_of(outcome, "Throughput")
    assert [(row["clients"], row["server"]) for row in rows] == [(1, "arriero"), (2, "arriero")]
    assert rows[0]["mean active"] == 1
    assert 1 < float(str(rows[1]["mean active"])) <= 2
