"""One client over HTTP: what is judged about aborts and probes, and the quick variant."""

from dataclasses import replace

import pytest

from arriero.bench.experiments.end_to_end import EXPERIMENT
from arriero.bench.experiments.end_to_end_cells import Abort, Cell
from arriero.bench.experiments.end_to_end_figures import judge
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.served import ServerLog
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.rows import step
from tests.unit.bench.experiments.running import find, not_so, rows_of, run_quick

MS = 1_000_000
RECORDS = "incomplete records"


def life(name: str, *, took_ms: int = 5, outcome: Outcome = Outcome.LENGTH, text: str = "a") -> ClientLife:
    return ClientLife(
        request_id=name, intended_at=None, sent_at=1, closed_at=1 + took_ms * MS, outcome=outcome, asked_tokens=8,
        text_sha256=text,
    )  # fmt: skip


LOG = ServerLog(
    steps=(step(rows=5, prefill=5, wall_us=4_000), step(rows=1, wall_us=2_000)),
    requests=(),
    summary=None,
    num_missing=0,
)
ABORT = Abort(
    life=life("abort", outcome=Outcome.CANCELLED_BY_CLIENT), probe=life("probe", took_ms=10), in_flight=0, looks=1
)
SOUND = Cell(
    placement="dedicated",
    kind="abort",
    budget=128,
    gate=life("gate"),
    lives=(),
    aborts=(ABORT,),
    sanity=life("sanity"),
    log=LOG,
)


def broken(**changes: object) -> Cell:
    return replace(SOUND, aborts=(replace(ABORT, **changes),))  # type: ignore[arg-type]


def test_probe_within_three_decode_steps_and_a_prefill_passes() -> None:
    assert not_so(list(judge([SOUND])), RECORDS) == []


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (broken(probe=life("probe", took_ms=11)), "longest wait"),
        (broken(probe=life("probe", outcome=Outcome.TIMEOUT)), "probes answered"),
        (broken(in_flight=1), "0 places taken"),
        (replace(SOUND, sanity=life("sanity", text="b")), "not the one before"),
        (replace(SOUND, gate=life("gate", outcome=Outcome.STOP)), "failed, were rejected"),
        (SOUND, RECORDS),  # the engine of this log never said that it has ended
    ],
)
def test_what_was_not_as_promised_fails(cell: Cell, words: str) -> None:
    assert find(list(judge([cell])), words).judgement is Judgement.BROKEN


def test_answer_that_differs_between_two_cells_fails() -> None:
    other = replace(SOUND, placement="shared", gate=life("gate", text="b"), sanity=life("sanity", text="b"))
    assert find(list(judge([SOUND, other])), "same in every cell").judgement is Judgement.BROKEN


def test_no_abort_is_no_answered_probe() -> None:
    assert find(list(judge([replace(SOUND, aborts=())])), "probes answered").judgement is Judgement.BROKEN


@pytest.mark.slow
def test_quick_variant_answers_every_probe_and_gives_every_place_back() -> None:
    outcome = run_quick(EXPERIMENT)
    # how long a probe waits is nothing to judge while other tests keep the machine busy
    assert not_so(outcome.statements, "longest wait") == []
    assert find(outcome.statements, "probes answered").measured == "4 of 4"
    aborts = rows_of(outcome, "Aborted streams")
    assert [row["placement"] for row in aborts] == ["shared", "dedicated"]
    assert len({row["cell"] for row in rows_of(outcome, "One client")}) == 4
