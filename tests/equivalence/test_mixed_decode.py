"""The preset `mixed-decode` against every figure of its published tables, to the digits printed there."""

import random

import pytest

from arriero.core.errors import ConfigError, InvariantViolation
from arriero.metrics.mixed_decode import MixedCost, MixedFigures, MixedPolicy, MixedRequest, MixedRun, mixed_figures
from arriero.metrics.quantiles import interpolated
from arriero.sim.mixed_decode import run_mixed_decode
from arriero.sim.mixed_workloads import mixed_workload
from arriero.testing.gates.mixed_table import BY_CLASS, GRID_A, LETTERS, POLICIES, PUBLISHED, SWEEP_B, lines_of
from tests.equivalence.naive_mixed import naive_mixed


def requests_of(letter: str) -> tuple[MixedRequest, ...]:
    return mixed_workload(LETTERS[letter], seed=7 if letter == "M" else 42)


def run(letter: str, policy: MixedPolicy, num_slots: int = 4, n_batch: int = 128) -> MixedRun:
    return run_mixed_decode(policy, requests_of(letter), num_slots=num_slots, n_batch=n_batch, cost=MixedCost())


def figures(letter: str, policy: MixedPolicy, num_slots: int = 4, n_batch: int = 128) -> MixedFigures:
    return mixed_figures(run(letter, policy, num_slots, n_batch))


@pytest.mark.parametrize("line", lines_of(PUBLISHED), ids=lambda line: "-".join(line[:2]))
def test_the_published_table(line: list[str]) -> None:
    letter, policy, *expected = line
    found = run(letter, POLICIES[policy])
    seen = mixed_figures(found)
    shown = [seen.makespan_ms]
    shown += [seen.details[f"{name}_p{p}"] for name in ("total_latency_ms", "ttft_ms") for p in (50, 95, 99)]
    counts = (seen.decode_calls, len(found.iterations), sum(each.batch_size for each in found.iterations))
    assert [f"{value:.3f}" for value in (*shown, seen.tokens_per_decode_call)] == expected[:8]
    assert [str(count) for count in counts] == expected[8:]


@pytest.mark.parametrize("line", lines_of(BY_CLASS), ids=lambda line: "-".join(line[:2]))
def test_workload_c_by_class(line: list[str]) -> None:
    policy, label, *expected = line
    lives = [each for each in run("C", POLICIES[policy]).lives if each.request.label == label]
    assert len(lives) == 33
    latencies, ttfts = [each.total_latency_ms for each in lives], [each.ttft_ms for each in lives]
    shown = [interpolated(samples, p) for samples in (latencies, ttfts) for p in (50, 95)]
    assert [f"{value:.3f}" for value in shown] == expected


@pytest.mark.parametrize("line", lines_of(SWEEP_B), ids=lambda line: "x".join(line[:2]))
def test_the_sweep_of_workload_b(line: list[str]) -> None:
    num_slots, n_batch, *expected = line
    pair = [
        figures("B", policy, int(num_slots), int(n_batch)) for policy in (MixedPolicy.STATIC, MixedPolicy.CONTINUOUS)
    ]
    shown = [f"{each.makespan_ms:.1f}" for each in pair]
    shown += [f"{each.details[name]:.1f}" for name in ("total_latency_ms_p50", "ttft_ms_p50") for each in pair]
    assert shown + [str(each.decode_calls) for each in pair] == expected


@pytest.mark.parametrize("line", lines_of(GRID_A), ids=lambda line: "x".join(line[:2]))
def test_the_grid_of_workload_a(line: list[str]) -> None:
    num_slots, n_batch, *expected = line
    trio = [figures("A", policy, int(num_slots), int(n_batch)) for policy in MixedPolicy]
    shown = [f"{each.makespan_ms:.1f}" for each in trio]
    assert shown + [f"{each.tokens_per_decode_call:.3f}" for each in trio[1:]] == expected


def test_two_runs_are_equal() -> None:
    assert run("M", MixedPolicy.CONTINUOUS) == run("M", MixedPolicy.CONTINUOUS)


@pytest.mark.parametrize("policy", MixedPolicy)
@pytest.mark.parametrize("seed", range(40))
def test_random_workloads_give_what_the_naive_reference_gives(policy: MixedPolicy, seed: int) -> None:
    rng = random.Random(seed)
    requests = [
        MixedRequest(i, rng.choice([0.0, 5.0, rng.uniform(0, 90)]), rng.randint(1, 60), rng.randint(1, 20), "any")
        for i in range(rng.randint(1, 40))
    ]
    rng.shuffle(requests)
    num_slots = rng.randint(1, 6)
    costs = MixedCost(
        base=rng.choice([0.0, 1.0]),
        prompt_token=rng.choice([0.05, 0.1]),
        decode_token=rng.choice([0.3, 0.5]),
        active_slot=rng.choice([0.0, 0.1]),
        stream_emit=rng.choice([0.0, 0.2]),
    )
    n_batch = rng.randint(num_slots, 24)
    found = run_mixed_decode(policy, requests, num_slots=num_slots, n_batch=n_batch, cost=costs)
    assert found == naive_mixed(policy, requests, num_slots, n_batch, costs)


@pytest.mark.parametrize(("num_slots", "n_batch"), [(0, 8), (4, 3)])
def test_slots_that_cannot_be_served_are_refused(num_slots: int, n_batch: int) -> None:
    with pytest.raises(ConfigError, match="n_batch"):
        run_mixed_decode(MixedPolicy.STATIC, (), num_slots=num_slots, n_batch=n_batch, cost=MixedCost())


def test_a_request_without_output_breaks_a_rule_of_the_published_simulator() -> None:
    with pytest.raises(InvariantViolation, match="exactly once"):
        run_mixed_decode(
            MixedPolicy.CONTINUOUS, [MixedRequest(1, 0.0, 3, 0, "x")], num_slots=1, n_batch=8, cost=MixedCost()
        )
