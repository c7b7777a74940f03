"""Baselines of prefix reuse on the formula; the cells that need sessions stay open."""

import pytest

from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.prefix_reuse import EXPERIMENT
from tests.unit.bench.experiments.running import find, rows_of, run_quick


@pytest.mark.slow
def test_quick_variant_runs_baselines_and_says_what_this_version_has_not() -> None:
    outcome = run_quick(EXPERIMENT)
    assert outcome.judgement is Judgement.OPEN
    decided = [each for each in outcome.statements if each.judgement is not Judgement.OPEN]
    assert {each.judgement for each in decided} == {Judgement.HOLDS}
    assert find(outcome.statements, "whose server failed").measured == "0 of 4"
    assert find(outcome.statements, "incomplete records").measured == 0
    assert "not available in this version" in (find(outcome.statements, "chat, exact reuse only").reason or "")
    rows = rows_of(outcome, "Prefix reuse")
    assert len(rows) == 4 * 5
    ran = [row for row in rows if row["requests"]]
    assert {row["way"] for row in ran} == {"no session"}
    assert all(row["share skipped"] == 0 for row in ran)
    assert all(str(row["note"]).startswith("not run") for row in rows if not row["requests"])
