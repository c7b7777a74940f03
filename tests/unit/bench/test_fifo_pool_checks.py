"""Every rule of the pool can be broken, and is then told; figures by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from arriero.bench.experiments.contexts import ContextShape, ModelSettings, open_model
from arriero.bench.fifo_pool import PoolCounts
from arriero.bench.fifo_pool_checks import ControlRuns, broken_rules, control_rules, hashes
from arriero.bench.fifo_pool_control import hindered_plan, mixed_plan, serial_plan
from arriero.bench.fifo_pool_figures import pool_figures
from arriero.bench.fifo_pool_plan import PoolPlan
from arriero.bench.fifo_pool_request import PoolLife, PoolOutcome
from arriero.bench.fifo_pool_runners import PoolRun, Runner, run_pool

MS = 1_000_000


def life(number: int, budget: int, context: int | None, asked: int, started: int, first: int, ended: int) -> PoolLife:
    return PoolLife(
        number=number,
        budget=budget,
        outcome=PoolOutcome.OK,
        error=None,
        tokens=tuple(range(budget)),
        asked_at=asked * MS,
        started_at=started * MS,
        first_at=first * MS,
        ended_at=ended * MS,
        context=context,
        decode_calls=budget,
    )


def bypassed(number: int) -> PoolLife:
    return replace(life(number, 0, None, 0, 0, 0, 0), started_at=None, first_at=None, decode_calls=0)


PLAN = PoolPlan(contexts=1, concurrent=2, requests=3, budgets=(2, 4, 0), prompt=(1,))
COUNTS = PoolCounts(acquires=2, releases=2, waits=1, wakes=1, left=0, in_use=0, peak=1, order=(0, 1))
RUN = PoolRun(
    plan=PLAN,
    lives=(life(0, 2, 0, 0, 0, 10, 20), life(1, 4, 0, 0, 20, 30, 60), bypassed(2)),
    counts=COUNTS,
    decode_calls=6,
    kv_cells=256,
    began_at=0,
    ended_at=100 * MS,
)


def with_life(number: int, **change: object) -> PoolRun:
    lives = list(RUN.lives)
    lives[number] = replace(lives[number], **change)  # type: ignore[arg-type]  # fields of a table
    return replace(RUN, lives=tuple(lives))


def with_counts(**change: object) -> PoolRun:
    return replace(RUN, counts=replace(COUNTS, **change))  # type: ignore[arg-type]  # fields of a table


def test_a_sound_run_breaks_nothing() -> None:
    assert broken_rules(RUN) == []


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: replace(RUN, lives=RUN.lives[:2]), "3 requests were asked and 2 ended"),
        (lambda: replace(RUN, lives=(*RUN.lives[:2], RUN.lives[1])), "not each of them once"),
        (lambda: with_life(0, tokens=(1,)), "ended as ok with 1 of 2 tokens"),
        (lambda: with_life(0, tokens=(1, 2, 3), outcome=PoolOutcome.CANCELLED), "3 of 2 tokens"),
        (lambda: with_life(0, outcome=PoolOutcome.ERROR), "with the error None"),
        (lambda: with_life(0, error="decode_failed"), "with the error decode_failed"),
        (lambda: with_life(1, first_at=10 * MS), "out of order"),
        (lambda: with_life(1, started_at=15 * MS), "before request 0 had ended"),
        (lambda: with_life(2, decode_calls=1), "budget 0 and was computed"),
        (lambda: with_counts(releases=1), "2 acquires and 1 releases"),
        (lambda: with_counts(in_use=1), "held at the end"),
        (lambda: with_counts(peak=2), "2 of 1 contexts"),
        (lambda: with_counts(wakes=0), "1 waited, 0 were woken"),
        (lambda: with_counts(order=(1, 0)), "another order"),
        (lambda: with_counts(acquires=1, releases=1), "2 requests had something to compute, 1 got a context"),
        (
            lambda: replace(RUN, plan=replace(PLAN, budgets=(2, 2)), lives=(RUN.lives[0], replace(
                life(1, 2, 0, 0, 20, 30, 60), tokens=(7, 8)))),
            "2 different answers",
        ),
    ],
)  # fmt: skip
def test_each_rule_can_be_broken(make: Callable[[], PoolRun], word: str) -> None:
    assert any(word in rule for rule in broken_rules(make())), broken_rules(make())


def test_figures_by_hand() -> None:
    figures = pool_figures(RUN)
    assert (figures.wall_ms, figures.tokens, figures.tokens_per_s) == (100.0, 6, 60.0)
    assert (figures.ttft_ms.n, figures.ttft_ms.p50_ms, figures.ttft_ms.max_ms) == (2, 10.0, 30.0)
    assert (figures.total_ms.p50_ms, figures.total_ms.p95_ms, figures.total_ms.p99_ms) == (20.0, 60.0, None)
    # 2 tokens in 20 ms and 4 in 60 ms: 100 and 66.67 tokens/s, mean 83.33, standard deviation 23.57
    assert figures.rate_variation == pytest.approx(0.282843, abs=1e-6)
    assert (figures.bypassed, figures.waits, figures.wakes, figures.left) == (1, 1, 1, 0)


def test_failed_and_cancelled_requests_are_in_no_latency() -> None:
    failed = with_life(0, outcome=PoolOutcome.ERROR, error="decode_failed")
    figures = pool_figures(failed)
    assert (figures.ok, figures.errors, figures.total_ms.n) == (2, {"decode_failed": 1}, 1)
    assert figures.rate_variation is None


def test_hashes_of_whole_answers_only() -> None:
    assert list(hashes(RUN)) == [2, 4]
    assert list(hashes(with_life(0, outcome=PoolOutcome.CANCELLED))) == [4]


# ── gate G45 ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", params=list(Runner))
def control(request: pytest.FixtureRequest) -> ControlRuns:
    """The three runs of the gate, small, without a model."""
    plans = (mixed_plan((1, 2), (2, 3)), serial_plan((1, 2), 2), hindered_plan((1, 2), 2))
    with open_model(ModelSettings(backend="synthetic", call_s=0.0005)) as source:
        shape = ContextShape(num_sequences=1, positions=8, threads=1)
        mixed, serial, hindered = (run_pool(request.param, plan, lambda: source.make(shape)) for plan in plans)
    return ControlRuns(mixed=mixed, serial=serial, hindered=hindered)


def promised(control: ControlRuns) -> dict[int, int]:
    return {budget: values[0] for budget, values in hashes(control.mixed).items()}


def wrong(control: ControlRuns, engine: dict[int, int]) -> set[tuple[str, str]]:
    return {(rule.run, rule.name) for rule in control_rules(control, engine) if not rule.holds}


def counted(run: PoolRun, **change: object) -> PoolRun:
    assert run.counts is not None
    return replace(run, counts=replace(run.counts, **change))  # type: ignore[arg-type]  # fields of a table


def test_sound_runs_of_the_gate_keep_every_rule(control: ControlRuns) -> None:
    rules = list(control_rules(control, promised(control)))
    assert [rule for rule in rules if not rule.holds] == []
    assert {rule.run for rule in rules} == {"mixed", "serial", "hindered"}
    assert {rule.name: rule.seen for rule in rules if rule.run == "mixed" and "hashes" not in rule.name} == {
        "broken_rules": "none", "ok": 6, "acquires": 4, "releases": 4, "bypassed": 2, "decode_calls": 10,
        "wakes": pool_figures(control.mixed).waits,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda runs: runs._replace(mixed=counted(runs.mixed, releases=3)), {("mixed", "releases")}),
        (lambda runs: runs._replace(mixed=counted(runs.mixed, acquires=5)), {("mixed", "acquires")}),
        (lambda runs: runs._replace(mixed=counted(runs.mixed, wakes=99)), {("mixed", "wakes")}),
        (lambda runs: runs._replace(mixed=replace(runs.mixed, decode_calls=11)), {("mixed", "decode_calls")}),
        (lambda runs: runs._replace(mixed=ended(runs.mixed, 0)), {("mixed", "ok")}),
        (lambda runs: runs._replace(serial=counted(runs.serial, peak=2)), {("serial", "peak")}),
        (lambda runs: runs._replace(serial=later(runs.serial)), {("serial", "order")}),
        (lambda runs: runs._replace(hindered=counted(runs.hindered, releases=1)), {("hindered", "releases")}),
        (lambda runs: runs._replace(hindered=ended(runs.hindered, 0)), {("hindered", "errors"), ("hindered", "ok")}),
    ],
)
def test_each_rule_of_the_gate_can_be_broken(
    control: ControlRuns, change: Callable[[ControlRuns], ControlRuns], expected: set[tuple[str, str]]
) -> None:
    found = wrong(change(control), promised(control))
    assert expected <= found
    assert {run for run, _ in found} == {run for run, _ in expected}


def test_answers_that_are_not_those_of_the_engine_break_the_gate(control: ControlRuns) -> None:
    engine = promised(control)
    assert wrong(control, {**engine, 3: 7}) == {("mixed", "hashes_3")}
    assert wrong(control, {**engine, 2: 7}) == {("mixed", "hashes_2"), ("hindered", "hashes")}
    assert wrong(control, {2: engine[2]}) == {("mixed", "hashes_3")}


def test_failures_that_were_wanted_have_to_be_there(control: ControlRuns) -> None:
    rules = control_rules(control, promised(control), errors={"decode_failed": 1})
    assert {(rule.run, rule.name) for rule in rules if not rule.holds} == {("hindered", "errors"), ("hindered", "ok")}


def ended(run: PoolRun, number: int) -> PoolRun:
    """One request ended in an error."""
    lives = list(run.lives)
    lives[number] = replace(lives[number], outcome=PoolOutcome.ERROR, error="decode_failed")
    return replace(run, lives=tuple(lives))


def later(run: PoolRun) -> PoolRun:
    """The first request ended last."""
    first, *others = run.lives
    return replace(run, lives=(replace(first, ended_at=run.ended_at + 1), *others))
