"""One client over HTTP: what is judged about streams that it leaves and about probes, and the quick variant."""

import os
from dataclasses import replace

import msgspec
import pytest

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.end_to_end import EXPERIMENT, EndToEnd
from arriero.bench.experiments.end_to_end_cells import Cell, LeftStream
from arriero.bench.experiments.end_to_end_figures import judge
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.served import ServerLog
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.rows import request_row, step, summary_row
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick

MS = 1_000_000
RECORDS = "incomplete records"


def life(name: str, *, took_ms: int = 5, outcome: Outcome = Outcome.LENGTH, text: str = "a") -> ClientLife:
    return ClientLife(
        request_id=name, intended_at=None, sent_at=1, closed_at=1 + took_ms * MS, outcome=outcome, asked_tokens=8,
        text_sha256=text,
    )  # fmt: skip


LOG = ServerLog(
    steps=(step(rows=5, prefill=5, wall_us=4_000), step(rows=1, wall_us=2_000)),
    requests=tuple(map(request_row, ("gate", "left", "probe", "sanity"))),
    summary=summary_row(),
    num_missing=0,
)
LEFT = LeftStream(
    life=life("left", outcome=Outcome.CANCELLED_BY_CLIENT), probe=life("probe", took_ms=10), in_flight=0, looks=1
)
SOUND = Cell(
    placement="dedicated",
    kind="left",
    budget=128,
    gate=life("gate"),
    lives=(),
    left=(LEFT,),
    sanity=life("sanity"),
    log=LOG,
)


def broken(**changes: object) -> Cell:
    return replace(SOUND, left=(replace(LEFT, **changes),))  # type: ignore[arg-type]


def test_probe_within_three_decode_steps_and_a_prefill_passes() -> None:
    assert not_so(list(judge([SOUND]))) == []


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (broken(probe=life("probe", took_ms=11)), "longest wait"),
        (broken(probe=life("probe", outcome=Outcome.TIMEOUT)), "probes answered"),
        (broken(in_flight=1), "0 places taken"),
        (broken(life=life("left", outcome=Outcome.LENGTH)), "left as planned"),
        (broken(life=life("left", outcome=Outcome.ERROR)), "left as planned"),
        (replace(SOUND, sanity=life("sanity", text="b")), "not the one before"),
        (replace(SOUND, gate=life("gate", outcome=Outcome.STOP)), "failed, were rejected"),
        (replace(SOUND, log=replace(LOG, summary=None)), RECORDS),
        (replace(SOUND, log=replace(LOG, summary=summary_row(is_empty=False))), RECORDS),
        (replace(SOUND, log=replace(LOG, num_missing=1)), RECORDS),
        (replace(SOUND, log=replace(LOG, requests=LOG.requests[1:])), RECORDS),
    ],
)
def test_what_was_not_as_promised_fails(cell: Cell, words: str) -> None:
    assert find(list(judge([cell])), words).judgement is Judgement.BROKEN


def test_answer_that_differs_between_two_cells_fails() -> None:
    other = replace(SOUND, placement="shared", gate=life("gate", text="b"), sanity=life("sanity", text="b"))
    assert find(list(judge([SOUND, other])), "same in every cell").judgement is Judgement.BROKEN


def test_stream_that_its_client_did_not_leave_is_named_by_its_end() -> None:
    other = replace(LEFT, life=life("left", outcome=Outcome.LENGTH))
    statement = find(list(judge([replace(SOUND, left=(LEFT, other))])), "left as planned")
    assert statement.measured == "1 of 2, others: length"


def test_no_left_stream_is_no_answered_probe() -> None:
    statements = list(judge([replace(SOUND, left=())]))
    assert find(statements, "probes answered").judgement is Judgement.BROKEN
    assert find(statements, "left as planned").judgement is Judgement.BROKEN


def test_placement_that_cannot_be_had_is_open_and_starts_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_definition(definition(EXPERIMENT), EndToEnd, quick=True)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    outcome = EXPERIMENT.run(msgspec.structs.replace(whole, placements=("pinned",)), lambda _: None)
    statement = find(outcome.statements, "pinned")
    assert statement.judgement is Judgement.OPEN
    assert "cannot pin" in (statement.reason or "")
    assert outcome.facts["order"] == []


@pytest.mark.slow
def test_quick_variant_answers_every_probe_and_gives_every_place_back() -> None:
    outcome = run_quick(EXPERIMENT)
    # how long a probe waits is nothing to judge while other tests keep the machine busy
    assert not_so(outcome.statements, "longest wait") == []
    assert find(outcome.statements, "probes answered").measured == "4 of 4"
    assert find(outcome.statements, "left as planned").measured == "4 of 4"
    assert find(outcome.statements, "whose server failed").measured == "0 of 6"
    left = rows_of(outcome, "Streams that their client left")
    assert [row["placement"] for row in left] == ["shared", "dedicated"]
    assert len({row["cell"] for row in rows_of(outcome, "One client")}) == 4
