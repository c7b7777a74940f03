import pytest

from arriero.metrics.mixed_decode import MixedCost, MixedIteration, MixedLife, MixedPolicy, MixedRequest, MixedRun
from arriero.metrics.mixed_decode import mixed_figures as figures_of
from arriero.metrics.quantiles import interpolated
from arriero.sim.mixed_workloads import NAMES, mixed_workload
from arriero.testing.gates.mixed_table import POLICIES, PUBLISHED
from tests.equivalence.naive_mixed import naive_mixed


@pytest.mark.parametrize("line", PUBLISHED.split("\n")[1:-1])
def test_figures_of_a_naive_run_are_the_published_ones(line: str) -> None:
    letter, policy, *published = line.split()
    name = dict(zip("ABCDEFM", NAMES, strict=True))[letter]
    requests = list(mixed_workload(name, seed=7))
    found = figures_of(naive_mixed(POLICIES[policy], requests, 4, 128, MixedCost()))
    details = found.details
    shown = [
        f"{found.makespan_ms:.3f}",
        *(f"{details[f'total_latency_ms_p{percent}']:.3f}" for percent in (50, 95, 99)),
        *(f"{details[f'ttft_ms_p{percent}']:.3f}" for percent in (50, 95, 99)),
        f"{found.tokens_per_decode_call:.3f}",
        str(found.decode_calls),
        str(details["n_iterations"]),
        f"{details['average_batch_rows'] * details['n_iterations']:.0f}",
    ]
    assert shown == published


def test_classes_of_the_decode_only_workload_have_their_published_percentiles() -> None:
    requests = list(mixed_workload("mixed_decode_only"))
    details = figures_of(naive_mixed(MixedPolicy.CONTINUOUS, requests, 4, 128, MixedCost())).details
    shown = {
        label: [
            f"{details[f'class_{label}_{metric}_p{percent}']:.3f}"
            for metric in ("total_latency_ms", "ttft_ms")
            for percent in (50, 95)
        ]
        for label in ("short", "medium", "long")
    }
    assert shown == {
        "short": ["3635.200", "7180.360", "3614.200", "7159.360"],
        "medium": ["3830.000", "7375.160", "3641.000", "7186.160"],
        "long": ["4599.000", "8071.400", "3835.600", "7380.840"],
    }
    assert [details[f"class_{label}_count"] for label in ("short", "medium", "long")] == [33, 33, 33]


def test_the_realistic_workload_has_its_published_arrivals_and_classes() -> None:
    requests = list(mixed_workload("mixed_realistic", seed=7))
    arrivals = [request.arrival_ms for request in requests]
    assert arrivals[:3] == [7.826296884696085, 28.87620924611462, 44.22853840654955]
    assert arrivals[-1] == 854.317390893251
    labels = [request.label for request in requests]
    assert [labels.count(each) for each in ("short", "medium", "long")] == [41, 9, 0]


def test_one_request_by_hand() -> None:
    request = MixedRequest(0, 10.0, 6, 2, "short")
    life = MixedLife(request, assigned_at_ms=12.0, first_token_ms=15.0, finish_ms=16.5)
    assert (life.queue_wait_ms, life.ttft_ms, life.prefill_ms, life.decode_ms, life.total_latency_ms) == (
        2.0, 5.0, 3.0, 1.5, 6.5,
    )  # fmt: skip
    iterations = (
        MixedIteration(12.0, 13.3, 6, 0, 1, 1, 1.3, 1, 0),
        MixedIteration(13.3, 14.8, 0, 1, 1, 1, 1.5, 0, 0),
        MixedIteration(14.8, 16.5, 0, 1, 1, 1, 1.7, 0, 1),
    )
    found = figures_of(MixedRun((life,), iterations))
    assert (found.n_completed, found.makespan_ms, found.decode_calls) == (1, 6.5, 3)
    assert found.tokens_per_second == 8 * 1000 / 6.5
    assert found.tokens_per_decode_call == 8 / 3
    assert found.details["batch_size_p50"] == 1


def test_no_requests_give_zeros() -> None:
    found = figures_of(MixedRun((), ()))
    assert (found.makespan_ms, found.tokens_per_second, found.tokens_per_decode_call) == (0.0, 0.0, 0.0)
    assert found.details["ttft_ms_p99"] == 0.0


def test_percentiles_lie_on_the_line_between_neighbours() -> None:
    samples = [float(each) for each in range(10, 0, -1)]
    assert [interpolated(samples, percent) for percent in (0, 50, 90, 100)] == [1.0, 5.5, 9.1, 10.0]
    assert interpolated(samples, 99) == pytest.approx(9.91)
    assert interpolated([], 50) == 0.0
    assert interpolated([3.5], 99) == 3.5
