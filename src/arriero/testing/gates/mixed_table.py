"""The published tables of the mixed-decode simulator, and runs beside them, to the digits printed there.

Workloads go by their published letters, policies by the short words of the tables.
"""

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from arriero.metrics.mixed_decode import MixedCost, MixedFigures, MixedPolicy, MixedRequest, mixed_figures
from arriero.sim.mixed_decode import run_mixed_decode
from arriero.sim.mixed_workloads import NAMES, mixed_workload

POLICIES: Final = MappingProxyType({
    "fifo": MixedPolicy.FIFO,
    "static": MixedPolicy.STATIC,
    "continuous": MixedPolicy.CONTINUOUS,
})
LETTERS: Final = MappingProxyType(dict(zip("ABCDEFM", NAMES, strict=True)))
_SEEDS: Final = MappingProxyType({"M": 7})
_DEFAULT_SEED: Final = 42

# 4 slots, n_batch 128: makespan, latency p50 p95 p99, TTFT p50 p95 p99, rows per call, calls, iterations, rows
PUBLISHED: Final = """
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

# workload C: latency p50 p95, TTFT p50 p95 of each class
BY_CLASS: Final = """
static short 5748.600 10648.280 5727.600 10627.280
static medium 5860.600 10788.280 5727.600 10627.280
static long 6148.600 11444.800 5727.600 10899.800
continuous short 3635.200 7180.360 3614.200 7159.360
continuous medium 3830.000 7375.160 3641.000 7186.160
continuous long 4599.000 8071.400 3835.600 7380.840
"""

# workload B: slots, n_batch, then static and continuous: makespan, latency p50, TTFT p50, calls
SWEEP_B: Final = """
2 32 875.7 875.7 203.3 200.8 189.3 187.0 450 450
2 128 875.7 875.7 203.3 200.8 189.3 187.0 450 450
4 32 659.7 657.7 104.1 96.4 83.1 76.0 234 232
4 128 659.7 657.7 104.1 96.4 83.1 76.0 234 232
8 32 580.7 554.7 74.8 58.4 40.4 24.6 155 129
8 128 569.7 554.7 70.1 58.4 35.1 24.6 144 129
"""

# workload A: slots, n_batch, makespan fifo static continuous, rows per call static continuous
GRID_A: Final = """
1 32 2660.0 2660.0 2660.0 1.556 1.556
1 128 2660.0 2660.0 2660.0 1.556 1.556
1 512 2660.0 2660.0 2660.0 1.556 1.556
2 32 2660.0 1760.0 1760.0 3.111 3.111
2 128 2660.0 1760.0 1760.0 3.111 3.111
2 512 2660.0 1760.0 1760.0 3.111 3.111
4 32 2660.0 1310.0 1310.0 6.222 6.222
4 128 2660.0 1310.0 1310.0 6.222 6.222
4 512 2660.0 1310.0 1310.0 6.222 6.222
8 32 2660.0 1110.0 1086.0 11.200 12.389
8 128 2660.0 1085.0 1085.0 12.444 12.444
8 512 2660.0 1085.0 1085.0 12.444 12.444
16 32 2660.0 1014.0 979.0 18.182 23.529
16 128 2660.0 977.0 977.0 23.932 23.932
16 512 2660.0 977.0 977.0 23.932 23.932
"""


class Compared(NamedTuple):
    """One line of a table, and what a run gives in its place."""

    what: str
    published: Sequence[str]
    seen: Sequence[str]


def lines_of(table: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in table.strip().splitlines()]


def requests_of(letter: str) -> tuple[MixedRequest, ...]:
    """A workload by its letter, with its published seed."""
    return mixed_workload(LETTERS[letter], seed=_SEEDS.get(letter, _DEFAULT_SEED))


def figures_of(letter: str, policy: str, num_slots: int = 4, n_batch: int = 128) -> MixedFigures:
    """The figures of one run."""
    run = run_mixed_decode(
        POLICIES[policy], requests_of(letter), num_slots=num_slots, n_batch=n_batch, cost=MixedCost()
    )
    return mixed_figures(run)


def compared(letters: str) -> Iterator[Compared]:
    """Every line of every table that is about one of these workloads."""
    by_class: dict[str, MixedFigures] = {}
    for letter, policy, *published in lines_of(PUBLISHED):
        if letter in letters:
            figures = figures_of(letter, policy)
            if letter == "C":
                by_class[policy] = figures
            yield Compared(f"{letter} {policy}", published, shown(figures))
    if "C" in letters:
        for policy, label, *published in lines_of(BY_CLASS):
            yield Compared(f"C {policy} {label}", published, shown_class(by_class[policy], label))
    if "B" in letters:
        for line in lines_of(SWEEP_B):
            yield Compared(f"B {line[0]} slots {line[1]} rows", line[2:], shown_sweep(int(line[0]), int(line[1])))
    if "A" in letters:
        for line in lines_of(GRID_A):
            yield Compared(f"A {line[0]} slots {line[1]} rows", line[2:], shown_grid(int(line[0]), int(line[1])))


def shown(figures: MixedFigures) -> list[str]:
    """As in `PUBLISHED`."""
    details = figures.details
    times = [details[f"{name}_p{p}"] for name in ("total_latency_ms", "ttft_ms") for p in (50, 95, 99)]
    num_iterations = round(details["n_iterations"])
    num_rows = round(details["average_batch_rows"] * num_iterations)
    return [
        *(f"{value:.3f}" for value in (figures.makespan_ms, *times, figures.tokens_per_decode_call)),
        *map(str, (figures.decode_calls, num_iterations, num_rows)),
    ]


def shown_class(figures: MixedFigures, label: str) -> list[str]:
    """As in `BY_CLASS`."""
    names = [f"class_{label}_{metric}_p{p}" for metric in ("total_latency_ms", "ttft_ms") for p in (50, 95)]
    return [f"{figures.details[name]:.3f}" for name in names]


def shown_sweep(num_slots: int, n_batch: int) -> list[str]:
    """As in `SWEEP_B`."""
    pair = [figures_of("B", policy, num_slots, n_batch) for policy in ("static", "continuous")]
    times = [f"{each.details[name]:.1f}" for name in ("total_latency_ms_p50", "ttft_ms_p50") for each in pair]
    return [*(f"{each.makespan_ms:.1f}" for each in pair), *times, *(str(each.decode_calls) for each in pair)]


def shown_grid(num_slots: int, n_batch: int) -> list[str]:
    """As in `GRID_A`."""
    trio = [figures_of("A", policy, num_slots, n_batch) for policy in POLICIES]
    makespans = [f"{each.makespan_ms:.1f}" for each in trio]
    return [*makespans, *(f"{each.tokens_per_decode_call:.3f}" for each in trio[1:])]
