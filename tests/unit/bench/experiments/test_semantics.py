"""Behaviours beside llama-server's: what is judged of ours, and the quick variant without a peer."""

from dataclasses import replace

import pytest

from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.semantics import EXPERIMENT
from arriero.bench.experiments.semantics_figures import judge, shaped
from arriero.bench.experiments.semantics_sides import Alone, EndOfGeneration, Lockstep, SideFound, Told
from arriero.bench.experiments.served import ServerLog
from arriero.bench.experiments.sides import OURS, THEIRS
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.record.diagnostics import IterRow
from tests.unit.bench.experiments.rows import request_row, step, summary_row
from tests.unit.bench.experiments.running import find, not_so, rows_of, run_quick

NOTHING = Told(status=200, num_tokens=0, finish="stop", text="")
SOMETHING = Told(status=200, num_tokens=3, finish="stop", text="The moon shines.")
TEXTS = "same text"
SHAPE = "within a shape"
RECORDS = "incomplete records"


def life(name: str, *, closed: int = 100, is_rejected: bool = False, text: str = "a") -> ClientLife:
    return ClientLife(
        request_id=name,
        intended_at=None,
        sent_at=1,
        closed_at=closed,
        outcome=Outcome.REJECTED if is_rejected else Outcome.LENGTH,
        status=503 if is_rejected else 200,
        asked_tokens=8,
        text_sha256=text,
    )


LOG = ServerLog(
    steps=(step(rows=5, prefill=5), step(rows=1, wall_us=2_000)),
    requests=tuple(map(request_row, "abcd")),
    summary=summary_row(),
    num_missing=0,
)


def side(*rounds: tuple[ClientLife, ...], end: Told = NOTHING, name: str = OURS) -> SideFound:
    return SideFound(
        name=name,
        end=EndOfGeneration(plain=SOMETHING, forced=end),
        capped=Lockstep(clients=2, budget=8, rounds=rounds, log=LOG),
    )


def rejected(after_ms: float) -> ClientLife:
    return life("b", closed=1 + int(after_ms * 1_000_000), is_rejected=True)


ONE_EACH = (life("a"), rejected(2))
"""As late as one decode step of this log allows."""


def test_one_answer_and_one_rejection_within_a_decode_step_in_each_round_pass() -> None:
    assert not_so(list(judge([side(ONE_EACH, ONE_EACH)])), TEXTS) == []


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        ((ONE_EACH, (life("a"), life("b"))), "one answer and 1"),
        (((life("a", is_rejected=True), rejected(1)),), "one answer and 1"),
        ((), "one answer and 1"),
        (((life("a"), rejected(2.01)),), "slowest rejection"),
    ],
    ids=["queued", "both rejected", "no rounds", "late"],
)
def test_queueing_or_a_late_rejection_fails(rounds: tuple[tuple[ClientLife, ...], ...], words: str) -> None:
    assert find(list(judge([side(*rounds)])), words).judgement is Judgement.BROKEN


def test_slowest_rejection_stays_open_where_no_decode_step_was_written_down() -> None:
    ours = side(ONE_EACH)
    ours.capped = Lockstep(clients=2, budget=8, rounds=(ONE_EACH,), log=replace(LOG, steps=LOG.steps[:1]))
    assert find(list(judge([ours])), "slowest rejection").judgement is Judgement.OPEN


def test_what_a_lost_cell_would_have_decided_stays_open() -> None:
    statements = list(judge([SideFound(name=OURS)]))
    assert {each.judgement for each in statements if "one in flight" in each.text} == {Judgement.OPEN}
    assert "failed" in (find(statements, "comes first").reason or "")
    assert find(statements, SHAPE).judgement is Judgement.OPEN


def test_end_token_that_is_counted_or_said_fails() -> None:
    one = Told(status=200, num_tokens=1, finish="stop", text="")
    assert find(list(judge([side(ONE_EACH, end=one)])), "comes first").judgement is Judgement.BROKEN


def test_texts_of_both_servers_are_compared_where_there_are_both() -> None:
    ours, theirs = side(ONE_EACH), side(ONE_EACH, name=THEIRS)
    assert find(list(judge([ours])), TEXTS).judgement is Judgement.OPEN
    assert find(list(judge([ours, theirs])), TEXTS).judgement is Judgement.HOLDS
    theirs.end = EndOfGeneration(plain=replace(SOMETHING, text="Else."), forced=None)
    assert find(list(judge([ours, theirs])), TEXTS).judgement is Judgement.BROKEN


def matched(*texts: str, steps: tuple[IterRow, ...]) -> SideFound:
    """One client on one slot, a round for each text; rounds are 10 ms apart, and steps where their time says."""
    rows = tuple(
        request_row(f"r{number}", submit_us=10_000 * number, done_us=10_000 * number + 5_000)
        for number in range(len(texts))
    )
    log = ServerLog(steps=steps, requests=rows, summary=summary_row(), num_missing=0)
    rounds = tuple((life(f"r{number}", text=text),) for number, text in enumerate(texts))
    return replace(side(ONE_EACH), matched=[Lockstep(clients=1, budget=8, rounds=rounds, log=log)])


ALONE_TWICE = (step(rows=5, prefill=5, at_us=1_000), step(rows=5, prefill=5, at_us=11_000))
OTHERWISE = (step(rows=5, prefill=5, at_us=1_000), step(rows=4, prefill=4, at_us=11_000))


@pytest.mark.parametrize(
    ("found", "judgement"),
    [
        (matched("a", "a", steps=ALONE_TWICE), Judgement.HOLDS),
        (matched("a", "b", steps=ALONE_TWICE), Judgement.BROKEN),
        (matched("a", "b", steps=OTHERWISE), Judgement.HOLDS),  # other rows: nothing says that they must be equal
    ],
    ids=["same", "another text", "another shape"],
)
def test_answers_must_be_the_same_within_a_shape_and_only_there(found: SideFound, judgement: Judgement) -> None:
    assert len(list(shaped(found.matched[0]))) == 2
    assert find(list(judge([found])), SHAPE).judgement is judgement


def alone(*texts: str, budget: int = 8) -> Alone:
    return Alone(lives={budget: tuple(life("c", text=text) for text in texts)}, log=LOG)


@pytest.mark.parametrize(
    ("blocks", "rounds", "judgement"),
    [
        ([alone("a", "a"), alone("a")], (ONE_EACH,), Judgement.HOLDS),
        ([alone("a", "b")], (ONE_EACH,), Judgement.BROKEN),
        ([alone("a"), alone("b")], (ONE_EACH,), Judgement.BROKEN),
        ([alone("a")], (ONE_EACH, (life("d", text="b"), rejected(1))), Judgement.BROKEN),
        ([alone("b")], (ONE_EACH,), Judgement.BROKEN),
        ([alone("b", budget=4)], (ONE_EACH,), Judgement.HOLDS),
    ],
    ids=["same", "in a block", "between blocks", "beside rejections", "alone and beside rejections", "other budget"],
)
def test_whoever_has_the_only_slot_gets_the_same_answer_always(
    blocks: list[Alone], rounds: tuple[tuple[ClientLife, ...], ...], judgement: Judgement
) -> None:
    found = replace(side(*rounds), alone=blocks)
    assert find(list(judge([found])), SHAPE).judgement is judgement


@pytest.mark.parametrize(
    "log",
    [
        replace(LOG, num_missing=1),
        replace(LOG, summary=None),
        replace(LOG, requests=tuple(map(request_row, ("a", "b", "d")))),
    ],
    ids=["missing rows", "no end", "an answer without a row"],
)
def test_incomplete_records_of_one_cell_fail(log: ServerLog) -> None:
    sound = replace(side(ONE_EACH), alone=[alone("a")])
    found = replace(sound, alone=[alone("a"), replace(alone("a"), log=log)])
    assert find(list(judge([sound])), RECORDS).judgement is Judgement.HOLDS
    assert find(list(judge([found])), RECORDS).measured == 1


def test_peer_has_no_records_and_its_texts_are_not_judged() -> None:
    theirs = side(ONE_EACH, name=THEIRS)
    theirs.alone = [Alone(lives={8: (life("x", text="a"), life("y", text="b"))}, log=None)]
    assert not_so(list(judge([side(ONE_EACH), theirs]))) == []


@pytest.mark.slow
def test_quick_variant_runs_our_side_and_says_what_was_not_compared() -> None:
    outcome = run_quick(EXPERIMENT)
    # how long a rejection takes is nothing to judge while other tests keep the machine busy
    assert not_so(outcome.statements, TEXTS, "slowest rejection") == []
    assert find(outcome.statements, TEXTS).judgement is Judgement.OPEN
    assert find(outcome.statements, "whose server failed").measured == "0 of 4"
    rejections = find(outcome.statements, "one answer and 1")
    assert rejections.measured == "3 of 3 rounds; 3 of 6 requests rejected"
    rows = {row["behaviour"]: row[OURS] for row in rows_of(outcome, "Behaviours")}
    assert rows["end token forced to come first: tokens counted, finish reason"] == "0 tokens, stop, no text"
    assert any("llama-server was not run" in limit for limit in outcome.limits)
