"""Tables of the mixed-decode experiment; what was measured and what was simulated never share one."""

from collections.abc import Callable, Sequence

from arriero.bench.experiments.experiment import EvidenceLabel, Table, Value
from arriero.bench.experiments.mixed_decode_statements import Judged
from arriero.bench.experiments.samples import rounded
from arriero.metrics.mixed_decode import mixed_figures

_US_PER_MS = 1000.0


def tables(judged: Sequence[Judged], *, is_model: bool) -> tuple[Table, ...]:
    """All of them."""
    label = EvidenceLabel.MEASURED if is_model else EvidenceLabel.SIMULATED
    return (_engine(judged, label), _simulated(judged), _fits(judged, label), _presets(judged))


def _engine(judged: Sequence[Judged], label: EvidenceLabel) -> Table:
    rows: list[tuple[Value, ...]] = []
    for each in judged:
        for number, live in enumerate(each.lives):
            total = sum(step.prefill_rows + step.decode_rows for step in live.trace.steps)
            found = _hash_counts(each, number)
            rows.append((
                each.case.name,
                number + 1,
                live.decode_calls,
                rounded(total / max(1, live.decode_calls)),
                rounded(live.trace.makespan / _US_PER_MS, 6),
                found,
            ))
    return Table(
        title="The engine",
        label=label,
        heads=("case", "run", "decode calls", "rows per call", "makespan ms", "hashes per budget"),
        rows=tuple(rows),
        note="Equal prompts: more than one hash for a budget shows where company changed an answer (near-ties).",
    )


def _hash_counts(judged: Judged, number: int) -> str:
    found: dict[int, set[int]] = {}
    for result in judged.lives[number].results:
        found.setdefault(result.decode_budget, set()).add(result.token_hash)
    return ", ".join(f"{budget}: {len(values)}" for budget, values in sorted(found.items()))


def _simulated(judged: Sequence[Judged]) -> Table:
    rows = tuple(
        (
            each.case.name,
            len(each.simulated.steps),
            rounded(_rows_per_call(each)),
            rounded(each.simulated.makespan / _US_PER_MS, 6),
        )
        for each in judged
    )
    return Table(
        title="The same scheduler, simulated under the deciding costs",
        label=EvidenceLabel.SIMULATED,
        heads=("case", "decode calls", "rows per call", "makespan ms"),
        rows=rows,
    )


def _rows_per_call(judged: Judged) -> float:
    steps = judged.simulated.steps
    return sum(each.prefill_rows + each.decode_rows for each in steps) / max(1, len(steps))


def _fits(judged: Sequence[Judged], label: EvidenceLabel) -> Table:
    rows = tuple(
        (
            each.case.name,
            fit.fitted_on,
            fit.num_fitted,
            fit.num_held,
            rounded(fit.base_us),
            rounded(fit.prompt_us),
            rounded(fit.decode_us),
            rounded(fit.makespan_error),
            rounded(fit.typical_error),
            rounded(fit.error_p95),
        )
        for each in judged
        for fit in each.fits
    )
    return Table(
        title="Costs of a decode call, and their error on the steps that were not fitted",
        label=label,
        heads=(
            "case", "fitted on", "fitted", "held", "base us", "us per prompt row", "us per decode row",
            "makespan error", "median error of one", "p95 error of one",
        ),
        rows=rows,
        note="The first line of each case decides. Errors are relative; those of one step without sign.",
    )  # fmt: skip


def _presets(judged: Sequence[Judged]) -> Table:
    details: tuple[tuple[str, Callable[[dict[str, float]], float]], ...] = (
        ("TTFT p50 ms", lambda found: found["ttft_ms_p50"]),
        ("latency p50 ms", lambda found: found["total_latency_ms_p50"]),
    )
    rows: list[tuple[Value, ...]] = []
    for each in judged:
        for policy, run in each.presets.items():
            figures = mixed_figures(run)
            rows.append((
                each.case.name,
                str(policy),
                figures.decode_calls,
                rounded(figures.tokens_per_decode_call),
                rounded(figures.makespan_ms, 6),
                *(rounded(read(figures.details), 6) for _, read in details),
            ))
    return Table(
        title="The published simulator's policies under the deciding costs",
        label=EvidenceLabel.SIMULATED,
        heads=("case", "policy", "decode calls", "rows per call", "makespan ms", *(name for name, _ in details)),
        rows=tuple(rows),
        note="One row more for each request than in reality: the first token comes from the first decode row.",
    )
