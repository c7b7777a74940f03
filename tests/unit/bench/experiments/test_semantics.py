"""Behaviours beside llama-server's: what is judged of ours, and the quick variant without a peer."""

from dataclasses import replace

import pytest

from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.semantics import EXPERIMENT
from arriero.bench.experiments.semantics_figures import judge, shaped
from arriero.bench.experiments.semantics_sides import EndOfGeneration, Lockstep, SideFound, Told
from arriero.bench.experiments.served import ServerLog
from arriero.bench.experiments.sides import OURS, THEIRS
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.rows import request_row, step
from tests.unit.bench.experiments.running import find, not_so, rows_of, run_quick

NOTHING = Told(status=200, num_tokens=0, finish="stop", text="")
SOMETHING = Told(status=200, num_tokens=3, finish="stop", text="The moon shines.")
TEXTS = "same text"


def life(name: str, *, closed: int = 100, rejected: bool = False, text: str = "a") -> ClientLife:
    return ClientLife(
        request_id=name,
        intended_at=None,
        sent_at=1,
        closed_at=closed,
        outcome=Outcome.REJECTED if rejected else Outcome.LENGTH,
        status=503 if rejected else 200,
        asked_tokens=8,
        text_sha256=text,
    )


def side(*rounds: tuple[ClientLife, ...], end: Told = NOTHING, name: str = OURS) -> SideFound:
    return SideFound(
        name=name,
        end=EndOfGeneration(plain=SOMETHING, forced=end),
        capped=Lockstep(clients=2, budget=8, rounds=rounds, log=None),
    )


ONE_EACH = (life("a"), life("b", closed=2, rejected=True))


def test_one_answer_and_one_rejection_at_once_in_each_round_pass() -> None:
    assert not_so(list(judge([side(ONE_EACH, ONE_EACH)])), TEXTS, "within a shape") == []


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        ((ONE_EACH, (life("a"), life("b"))), "one in flight"),
        (((life("a", rejected=True), life("b", rejected=True)),), "one in flight"),
        ((), "one in flight"),
        (((life("a"), life("b", closed=101, rejected=True)),), "after the end of the answer"),
    ],
    ids=["queued", "both rejected", "no rounds", "late"],
)
def test_queueing_or_a_late_rejection_fails(rounds: tuple[tuple[ClientLife, ...], ...], words: str) -> None:
    assert find(list(judge([side(*rounds)])), words).judgement is Judgement.BROKEN


def test_end_token_that_is_counted_or_said_fails() -> None:
    one = Told(status=200, num_tokens=1, finish="stop", text="")
    assert find(list(judge([side(ONE_EACH, end=one)])), "comes first").judgement is Judgement.BROKEN


def test_texts_of_both_servers_are_compared_where_there_are_both() -> None:
    ours, theirs = side(ONE_EACH), side(ONE_EACH, name=THEIRS)
    assert find(list(judge([ours])), TEXTS).judgement is Judgement.OPEN
    assert find(list(judge([ours, theirs])), TEXTS).judgement is Judgement.HOLDS
    theirs.end = EndOfGeneration(plain=replace(SOMETHING, text="Else."), forced=None)
    assert find(list(judge([ours, theirs])), TEXTS).judgement is Judgement.BROKEN


def test_answers_are_compared_only_within_a_shape() -> None:
    log = ServerLog(steps=(step(rows=1),), requests=(request_row("a"), request_row("b")), summary=None, num_missing=0)
    found = Lockstep(clients=1, budget=8, rounds=((life("a"),), (life("b"),)), log=log)
    shapes = [shape for shape, _ in shaped(found)]
    assert len(shapes) == 2
    assert shapes[0] == shapes[1]


@pytest.mark.slow
def test_quick_variant_runs_our_side_and_says_what_was_not_compared() -> None:
    outcome = run_quick(EXPERIMENT)
    assert not_so(outcome.statements, TEXTS) == []
    assert find(outcome.statements, TEXTS).judgement is Judgement.OPEN
    rejections = find(outcome.statements, "one in flight")
    assert rejections.measured == "3 of 3 rounds; 3 of 6 requests rejected"
    rows = {row["behaviour"]: row[OURS] for row in rows_of(outcome, "Behaviours")}
    assert rows["end token forced to come first: tokens counted, finish reason"] == "0 tokens, stop, no text"
    assert any("llama-server was not run" in limit for limit in outcome.limits)
