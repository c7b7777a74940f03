"""Statements judge what they are given, and nothing undecided passes."""

import math

import pytest

from arriero.bench.experiments.experiment import Judgement, Outcome, Statement

YES = Statement.equal("two", 2, 2)
NO = Statement.equal("two", 3, 2)
UNDECIDED = Statement.undecided("two", "exactly 2", "nobody counted")


@pytest.mark.parametrize(
    ("statement", "judgement"),
    [
        (YES, Judgement.HOLDS),
        (NO, Judgement.BROKEN),
        (UNDECIDED, Judgement.OPEN),
        (Statement.at_most("few", 3, 3), Judgement.HOLDS),
        (Statement.at_most("few", 3.1, 3), Judgement.BROKEN),
        (Statement.at_most("few", None, 3), Judgement.OPEN),
        (Statement.at_most("few", math.nan, 3), Judgement.BROKEN),
        (Statement.at_most("few", math.inf, 3), Judgement.BROKEN),
        (Statement.at_least("many", 3, 3), Judgement.HOLDS),
        (Statement.at_least("many", 2.9, 3), Judgement.BROKEN),
        (Statement.at_least("many", math.nan, 3), Judgement.BROKEN),
        (Statement.between("so many", 3, 3, 4), Judgement.HOLDS),
        (Statement.between("so many", 4.5, 3, 4), Judgement.BROKEN),
        (Statement.between("so many", None, 3, 4), Judgement.OPEN),
        (Statement.so("sunny", "rain", "sun", holds=False), Judgement.BROKEN),
    ],
)
def test_a_statement_is_judged_by_its_bound(statement: Statement, judgement: Judgement) -> None:
    assert statement.judgement is judgement
    assert (statement.reason is not None) == (judgement is Judgement.OPEN)


def test_a_bound_reads_as_a_phrase() -> None:
    assert Statement.at_most("lag", 3, 5, " ms").bound == "at most 5 ms"
    assert Statement.between("ratio", 3, 0.5, 2).bound == "0.5 to 2"
    assert YES.bound == "exactly 2"


@pytest.mark.parametrize(
    ("statements", "judgement"),
    [
        ((YES, YES), Judgement.HOLDS),
        ((YES, UNDECIDED), Judgement.OPEN),
        ((UNDECIDED, NO, YES), Judgement.BROKEN),
        ((), Judgement.OPEN),
    ],
)
def test_a_run_passes_only_if_every_statement_was_decided_and_holds(
    statements: tuple[Statement, ...], judgement: Judgement
) -> None:
    assert Outcome(statements=statements, tables=(), limits=()).judgement is judgement
