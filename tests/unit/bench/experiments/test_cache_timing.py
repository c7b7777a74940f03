"""The timing probe: what is a signal, and what the quick variant finds on the formula."""

import random

import pytest

from arriero.bench.experiments.cache_timing import EXPERIMENT
from arriero.bench.experiments.cache_timing_figures import Pair, judge
from arriero.bench.experiments.experiment import Judgement, Statement
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.running import find, not_so, rows_of, run_quick

MS = 1_000_000


def life(first_ms: float, cached: int | None) -> ClientLife:
    return ClientLife(
        request_id="p", intended_at=None, sent_at=0, chunk_at=(int(first_ms * MS),), closed_at=int(first_ms * MS) + 1,
        outcome=Outcome.LENGTH, asked_tokens=1, num_tokens=1, cached_tokens=cached,
    )  # fmt: skip


def pairs(primed_ms: float, unprimed_ms: float, cached: int | None, count: int = 12) -> list[Pair]:
    rng = random.Random(f"{primed_ms} {unprimed_ms}")

    def noisy(milliseconds: float) -> float:
        return milliseconds * rng.uniform(0.98, 1.02)

    return [
        Pair(order="pu" if number % 2 else "up", primed=life(noisy(primed_ms), cached),
             unprimed=life(noisy(unprimed_ms), 0))
        for number in range(count)
    ]  # fmt: skip


def judged(found: list[Pair], *, signal: bool) -> list[Statement]:
    return list(judge("q", found, expects_signal=signal, margin=0.05, seed=1))


@pytest.mark.parametrize(
    ("primed_ms", "cached", "signal", "told", "timing"),
    [
        (5, 512, True, Judgement.HOLDS, Judgement.HOLDS),
        (50, 0, True, Judgement.BROKEN, Judgement.BROKEN),  # the probe is blind
        (50, 0, False, Judgement.HOLDS, Judgement.HOLDS),
        (5, 512, False, Judgement.BROKEN, Judgement.BROKEN),  # it leaks, and says so
        (40, 0, False, Judgement.HOLDS, Judgement.BROKEN),  # it leaks by timing alone
        (60, 0, False, Judgement.HOLDS, Judgement.BROKEN),  # a slower one tells as much
        (50, None, False, Judgement.OPEN, Judgement.HOLDS),
    ],
)
def test_signal_has_to_be_where_it_is_expected_and_nowhere_else(
    primed_ms: float, cached: int | None, signal: bool, told: Judgement, timing: Judgement  # noqa: FBT001 - a table
) -> None:  # fmt: skip
    statements = judged(pairs(primed_ms, 50, cached), signal=signal)
    assert find(statements, "cached tokens").judgement is told
    assert find(statements, "TTFT of primed").judgement is timing


def test_too_few_pairs_and_a_server_that_failed_decide_nothing() -> None:
    assert find(judged(pairs(50, 50, 0, count=4), signal=False), "TTFT of").judgement is Judgement.OPEN
    assert {each.judgement for each in judged([], signal=True)} == {Judgement.OPEN}


@pytest.mark.slow
def test_quick_variant_finds_cached_tokens_within_a_scope_only() -> None:
    outcome = run_quick(EXPERIMENT)
    assert not_so(outcome.statements, "TTFT of primed") == []  # times beside other tests
    rows = {str(row["question"]): row for row in rows_of(outcome, "What a prober sees")}
    assert len(rows) == 5
    inside = {name for name, row in rows.items() if row["cached, primed"]}
    assert inside == {"one key", "two keys, global scope"}
    for name in inside:
        assert float(str(rows[name]["primed / unprimed"])) < 0.7, "the probe can see"
