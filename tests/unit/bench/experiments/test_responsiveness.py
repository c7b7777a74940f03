"""Queued cancels and fan-outs: what is judged, and the quick variant on the formula."""

import os
import threading

import msgspec
import pytest

from arriero.bench.experiments.contexts import ModelSettings
from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement
from arriero.bench.experiments.responsiveness import EXPERIMENT, Responsiveness
from arriero.bench.experiments.responsiveness_figures import Rounds, cancel_tables, judge
from arriero.bench.experiments.responsiveness_rounds import CancelRound, FanOutRound
from arriero.bench.experiments.responsiveness_trials import CancelTrial, Hang, in_thread
from arriero.core.errors import ConfigError
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick

SHARE = "as a share of the median decode step"
US = 1_000


def trial(future_us: int, *, was_queued: bool = True) -> CancelTrial:
    return CancelTrial(
        observed_ns=US, future_ns=future_us * US, resumed_ns=future_us * US, closed_ns=None, was_queued=was_queued
    )


def rounds(cancel: CancelRound, decode_us: int = 10_000) -> Rounds:
    fan_out = FanOutRound(placement="dedicated", decode_us=[decode_us], idle_us=[20], shapes=[("alone", "hash")])
    return Rounds(placements=["dedicated"], cancels=[cancel], fan_outs=[fan_out])


def cancels(*trials: CancelTrial, asked: int | None = None, hang: str | None = None) -> CancelRound:
    return CancelRound(
        placement="dedicated", asked=len(trials) if asked is None else asked, trials=list(trials), hang=hang
    )


def test_cancels_below_one_percent_of_a_decode_step_pass() -> None:
    statements = judge(rounds(cancels(trial(100), trial(90))), fewest_cancels=2)
    assert not_so(statements, "did not get all", "same company") == []


def test_cancels_above_one_percent_of_a_decode_step_fail() -> None:
    statements = judge(rounds(cancels(trial(101), trial(90))), fewest_cancels=2)
    assert find(statements, SHARE).judgement is Judgement.BROKEN


@pytest.mark.parametrize(
    "cancel",
    [cancels(trial(1), asked=2), cancels(trial(1), trial(1), hang="it did not come back"), cancels(trial(1))],
    ids=["one is missing", "one hung", "too few to say"],
)
def test_hang_or_too_few_trials_fail(cancel: CancelRound) -> None:
    assert find(judge(rounds(cancel), fewest_cancels=2), "no trial hangs").judgement is Judgement.BROKEN


def test_cancel_that_had_a_slot_and_a_decode_call_meanwhile_fail() -> None:
    cancel = cancels(trial(1), trial(1, was_queued=False))
    cancel.decode_calls = 1
    statements = judge(rounds(cancel), fewest_cancels=2)
    assert find(statements, "had a slot").measured == 1
    assert find(statements, "decode calls run").judgement is Judgement.BROKEN


def test_answers_that_differ_in_the_same_company_fail() -> None:
    found = rounds(cancels(trial(1)))
    found.fan_outs[0].shapes.append(("alone", "another hash"))
    assert find(judge(found, fewest_cancels=1), "same company").judgement is Judgement.BROKEN


def test_placement_that_cannot_be_had_is_open_and_never_passes() -> None:
    found = rounds(cancels(trial(1)))
    found.refused["pinned"] = "no such CPU"
    statement = find(judge(found, fewest_cancels=1), "pinned")
    assert statement.judgement is Judgement.OPEN
    assert statement.reason == "no such CPU"


def test_engine_that_cannot_run_so_is_no_refused_placement() -> None:
    whole = read_definition(definition(EXPERIMENT), Responsiveness, quick=True)
    with pytest.raises(ConfigError, match="preloaded prompts"):  # the prompt does not fit into a call of four rows
        EXPERIMENT.run(msgspec.structs.replace(whole, batch_rows=4), lambda _: None)


def test_placement_that_this_system_does_not_give_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_definition(definition(EXPERIMENT), Responsiveness, quick=True)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    outcome = EXPERIMENT.run(msgspec.structs.replace(whole, placements=("pinned",)), lambda _: None)
    statement = find(outcome.statements, "pinned")
    assert statement.judgement is Judgement.OPEN
    assert "cannot pin" in (statement.reason or "")


def test_ratios_stand_beside_times() -> None:
    _, shares = cancel_tables(rounds(cancels(trial(100), trial(100))), ModelSettings())
    row = dict(zip(shares.heads, shares.rows[0], strict=True))
    assert row["p95 / decode step"] == 0.01
    assert row["p99 / idle turn of the loop"] is None  # two samples have no p99


async def test_trial_that_does_not_come_back_is_a_hang() -> None:
    never = threading.Event()
    with pytest.raises(Hang, match="within"):
        await in_thread(never.wait, 0.01)
    never.set()


async def test_what_a_trial_raises_reaches_the_experiment() -> None:
    def fail() -> None:
        raise LookupError("no such request")

    with pytest.raises(LookupError, match="no such request"):
        await in_thread(fail, 1)


@pytest.mark.slow
def test_quick_variant_resolves_every_cancel_without_a_decode_call_in_every_placement() -> None:
    outcome = run_quick(EXPERIMENT)
    # how long a cancel takes is nothing to judge while other tests keep the machine busy
    assert not_so(outcome.statements, SHARE) == []
    streams = rows_of(outcome, "Streams")
    assert {row["placement"] for row in streams} == {"shared", "dedicated", "pinned"}
    cancels_seen = rows_of(outcome, "Queued cancel, microseconds")
    assert {row["n"] for row in cancels_seen} == {10, 20}
