import pytest

from arriero.metrics.mixed_decode import MixedCost, MixedIteration, MixedLife, MixedPolicy, MixedRequest, MixedRun
from arriero.metrics.mixed_decode import mixed_figures as figures_of
from arriero.metrics.quantiles import interpolated
from arriero.sim.mixed_workloads import NAMES, mixed_workload
from tests.equivalence.naive_mixed import naive_mixed

# makespan, latency p50 p95 p99, TTFT p50 p95 p99, rows per call, calls, iterations, rows
PUBLISHED = """
A fifo 2660.000 1356.600 2553.600 2660.000 1314.600 2511.600 2618.000 1.556 1800 450 2800
A static 1310.000 668.100 1257.600 1310.000 647.100 1236.600 1289.000 6.222 450 450 2800
A continuous 1310.000 668.100 1257.600 1310.000 647.100 1236.600 1289.000 6.222 450 450 2800
B fifo 1316.700 444.900 810.780 826.740 403.500 769.360 802.006 1.556 891 231 1386
B static 659.700 104.100 172.420 179.800 83.100 151.420 158.800 5.923 234 234 1386
B continuous 657.700 96.400 164.910 169.200 76.000 144.580 150.476 5.974 232 232 1386
C fifo 16364.700 8113.400 15253.580 16225.050 7292.000 14608.580 15234.136 1.045 10923 2861 11418
C static 11866.700 5748.600 11099.200 11584.460 5727.600 10899.800 11449.200 1.777 6425 6425 11418
C continuous 8302.700 4051.400 7617.080 8163.050 3641.000 7294.880 7607.276 3.991 2861 2861 11418
D fifo 3445.200 1766.100 3328.800 3434.910 1688.400 3245.500 3360.318 35.059 1122 286 39336
D static 2845.200 1455.600 2741.695 2833.440 1401.950 2681.425 2781.437 75.356 522 522 39336
D continuous 2766.200 1414.400 2682.600 2753.068 1359.450 2661.600 2699.007 88.795 443 443 39336
E fifo 18493.200 9164.000 17276.690 18363.840 8288.600 16657.490 17264.314 4.426 11154 2917 49368
E static 14053.200 6879.600 13207.800 13759.200 6805.950 12965.425 13589.447 7.353 6714 6714 49368
E continuous 10275.200 5069.000 9502.940 10154.660 4578.600 9166.740 9502.294 16.815 2936 2936 49368
F fifo 18493.200 8664.000 16276.690 17363.840 7788.600 15657.490 16264.314 4.426 11154 2917 49368
F static 14053.200 6379.600 12207.800 12759.200 6305.950 11965.425 12589.447 7.353 6714 6714 49368
F continuous 10275.200 4569.000 8502.940 9154.660 4078.600 8166.740 8502.294 16.815 2936 2936 49368
M fifo 1496.400 470.974 673.665 771.248 419.828 522.090 527.701 2.843 954 287 2712
M static 1120.400 264.849 354.578 371.894 214.204 326.284 350.894 4.692 578 578 2712
M continuous 953.775 55.731 240.443 250.245 19.384 93.344 100.073 7.194 377 377 2712
"""
POLICIES = {"fifo": MixedPolicy.FIFO, "static": MixedPolicy.STATIC, "continuous": MixedPolicy.CONTINUOUS}


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
