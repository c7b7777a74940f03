"""Tables of the experiment on the pool: each side, each comparison, and what the simulator predicts."""

import statistics
from collections.abc import Callable, Sequence

from arriero.bench.experiments.contexts import ModelSource
from arriero.bench.experiments.experiment import EvidenceLabel, Table, Value
from arriero.bench.experiments.fifo_pool_rounds import Arm, Measured, order_of, predicted_calls
from arriero.bench.experiments.samples import rounded
from arriero.bench.fifo_pool_checks import hashes
from arriero.bench.fifo_pool_figures import PoolFigures, pool_figures
from arriero.bench.fifo_pool_runners import PoolRun
from arriero.metrics.mixed_decode import MixedPolicy
from arriero.metrics.paired import compare_pairs

_PAIRS = ((Arm.THREADS, Arm.ENGINE), (Arm.ASYNCIO, Arm.ENGINE), (Arm.THREADS, Arm.ASYNCIO))
"""Who is compared with whom; the second as a multiple of the first."""


def tables(measured: Sequence[Measured], source: ModelSource, *, is_model: bool, seed: int) -> tuple[Table, ...]:
    """All of them."""
    label = EvidenceLabel.MEASURED if is_model else EvidenceLabel.SIMULATED
    return (_sides(measured, source, label), _comparisons(measured, label, seed), _predicted(measured))


def _sides(measured: Sequence[Measured], source: ModelSource, label: EvidenceLabel) -> Table:
    rows = tuple(_side(each, arm, source.cell_bytes) for each in measured for arm in Arm)
    return Table(
        title="Each side, median over rounds",
        label=label,
        heads=(
            "shape", "side", "rounds", "decode calls", "makespan ms", "TTFT p50 ms", "total p50 ms", "total p99 ms",
            "tok/s", "CV of tok/s per request", "KV bytes", "hashes per budget",
        ),
        rows=rows,
        note="p99 of single rounds, where a round has 100 requests or more. KV bytes are computed, not measured.",
    )  # fmt: skip


def _side(measured: Measured, arm: Arm, cell_bytes: int | None) -> tuple[Value, ...]:
    runs = measured.runs[arm]
    figures = [pool_figures(run) for run in runs]

    def middle(read: Callable[[PoolFigures], float | None]) -> Value:
        values = [value for each in figures if (value := read(each)) is not None]
        return rounded(statistics.median(values)) if values else None

    calls = sorted({each.decode_calls for each in figures})
    return (
        measured.setting.name,
        str(arm),
        len(runs),
        str(calls[0]) if len(calls) == 1 else f"{calls[0]} ... {calls[-1]}",
        middle(lambda each: each.wall_ms),
        middle(lambda each: each.ttft_ms.p50_ms),
        middle(lambda each: each.total_ms.p50_ms),
        middle(lambda each: each.total_ms.p99_ms),
        middle(lambda each: each.tokens_per_s),
        middle(lambda each: each.rate_variation),
        None if cell_bytes is None else runs[0].kv_cells * cell_bytes,
        _hash_counts(runs),
    )


def _hash_counts(runs: Sequence[PoolRun]) -> str:
    """Different answers to the one prompt, by budget, over all rounds."""
    found: dict[int, set[int]] = {}
    for run in runs:
        for budget, values in hashes(run).items():
            found.setdefault(budget, set()).update(values)
    return ", ".join(f"{budget}: {len(values)}" for budget, values in sorted(found.items()))


def _comparisons(measured: Sequence[Measured], label: EvidenceLabel, seed: int) -> Table:
    metrics: tuple[tuple[str, Callable[[PoolRun], float | None]], ...] = (
        ("makespan", lambda run: pool_figures(run).wall_ms),
        ("TTFT p50", lambda run: pool_figures(run).ttft_ms.p50_ms),
        ("total p50", lambda run: pool_figures(run).total_ms.p50_ms),
    )
    rows = tuple(
        (each.setting.name, f"{second} / {first}", name, *_compared(each, first, second, read, seed))
        for each in measured
        for first, second in _PAIRS
        for name, read in metrics
    )
    return Table(
        title="Ratios, paired by round",
        label=label,
        heads=("shape", "sides", "metric", "median ratio", "low", "high", "second against first"),
        rows=rows,
        note="Below 1 the second side is faster. Bootstrap interval of the median, 95 %; no A/A run stands beside it.",
    )


def _compared(
    measured: Measured, first: Arm, second: Arm, read: Callable[[PoolRun], float | None], seed: int
) -> tuple[Value, ...]:
    pairs = [
        (a, b)
        for one, other in zip(measured.runs[first], measured.runs[second], strict=True)
        if (a := read(one)) is not None and (b := read(other)) is not None
    ]
    if len(pairs) < measured.setting.rounds:
        return (None, None, None, "a round has no such figure")
    order = "".join(
        "AB" if (places := order_of(number)).index(first) < places.index(second) else "BA"
        for number in range(measured.setting.rounds)
    )
    found = compare_pairs(pairs, floor=None, seed=seed, higher_is_better=False, order=order)
    return (rounded(found.median_ratio), rounded(found.low), rounded(found.high), str(found.verdict))


def _predicted(measured: Sequence[Measured]) -> Table:
    rows: list[tuple[Value, ...]] = []
    for each in measured:
        pool, shared = (predicted_calls(each.setting, policy) for policy in (MixedPolicy.FIFO, MixedPolicy.CONTINUOUS))
        rows.append((each.setting.name, each.setting.contexts, each.setting.requests, pool, shared, pool / shared))
    return Table(
        title="Decode calls that the simulator of rows and slots needs",
        label=EvidenceLabel.SIMULATED,
        heads=("shape", "slots", "requests", "pool", "shared", "ratio"),
        rows=tuple(rows),
        note="It gives the first token one row later than a real engine, so each request takes one call more in it.",
    )
