"""Measures: every number that a report of simulated runs shows, with its unit and its definition.

The formulas are those of `metrics/`; here they are named, ordered and given words.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from arriero.metrics.rates import per_second, share
from arriero.metrics.served import Outcome
from arriero.report.columns import FAILED
from arriero.report.latencies import Measured
from arriero.report.run_view import RunView
from arriero.report.written import Unit

Value: TypeAlias = float | None
"""None is undefined, or not recorded."""

Formula: TypeAlias = Callable[[Measured], Value]


class Measure(NamedTuple):
    """One number of a run."""

    name: str  # in CSV
    label: str
    unit: Unit
    definition: str
    of: Formula


class Group(NamedTuple):
    """Measures under one heading."""

    heading: str
    measures: tuple[Measure, ...]


# ── formulas ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def makespan(run: RunView) -> int:
    """From the first arrival to the end of the last step, microseconds."""
    arrivals = run.requests.moments["arrival"]
    return int(run.ended_at - arrivals.min()) if len(arrivals) else 0


def _makespan(measured: Measured) -> Value:
    return makespan(measured.run)


def _submitted(measured: Measured) -> Value:
    return measured.run.requests.num_requests


def _ended(*outcomes: str) -> Formula:
    return lambda measured: int(measured.run.requests.ended_as(*outcomes).sum())


def _total(name: str) -> Formula:
    return lambda measured: int(measured.run.requests.amounts[name].sum())


def _rate(amount: Formula) -> Formula:
    def of(measured: Measured) -> Value:
        value = amount(measured)
        return None if value is None else per_second(value, makespan(measured.run))

    return of


def _part(part: Formula, whole: Formula) -> Formula:
    def of(measured: Measured) -> Value:
        value, total = part(measured), whole(measured)
        return None if value is None or total is None else share(value, total)

    return of


def _prompt(*, cached: bool) -> Formula:
    def of(measured: Measured) -> Value:
        amounts = measured.run.requests.amounts
        has_first = ~np.isnan(measured.run.requests.moments["first"])
        num_cached = int(amounts["cached_tokens"][has_first].sum())
        return num_cached if cached else int(amounts["prompt_tokens"][has_first].sum()) - num_cached

    return of


def _good(measured: Measured) -> Value:
    run = measured.run
    return int(run.requests.keeping(run.objectives).sum()) if run.objectives else None


def _quantile(name: str, statistic: str) -> Formula:
    return lambda measured: _number(measured.everybody[name][statistic])


def _gap(statistic: str) -> Formula:
    return lambda measured: _number(measured.itl[statistic])


def _number(value: Any) -> Value:  # noqa: ANN401 - a number, or null with its reason
    return None if isinstance(value, dict) else float(value)


def _steps(name: str) -> Formula:
    def of(measured: Measured) -> Value:
        figures = measured.run.step_figures
        value: Value = getattr(figures, name)
        return value if figures.num_steps else None  # a file without steps knows nothing of them

    return of


def _waiting(name: str) -> Formula:
    def of(measured: Measured) -> Value:
        value: Value = getattr(measured.run.step_figures, name)
        return value

    return of


def _memory(name: str) -> Formula:
    def of(measured: Measured) -> Value:
        return None if measured.run.limits.kv_places is None else _steps(name)(measured)

    return of


def _kv_peak_share(measured: Measured) -> Value:
    peak = _memory("kv_peak")(measured)
    return None if peak is None else share(peak, measured.run.limits.kv_places or 0)


def _hit_rate(measured: Measured) -> Value:
    requests = measured.run.requests
    asked, amounts = requests.looked_up, requests.amounts
    return share(int(amounts["cached_tokens"][asked].sum()), int(amounts["prompt_tokens"][asked].sum()))


def _evictions(measured: Measured) -> Value:
    return measured.run.evictions


# ── the list ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_FINISHED: Final = _ended(Outcome.FINISHED)
_GENERATED: Final = _total("generated_tokens")

GROUPS: Final = (
    Group("Requests", (
        Measure("submitted", "submitted", Unit.COUNT, "requests that arrived", _submitted),
        Measure("finished", "finished", Unit.COUNT, "ended normally", _FINISHED),
        Measure("rejected", "rejected", Unit.COUNT, "refused on arrival", _ended(Outcome.REJECTED)),
        Measure("cancelled", "cancelled", Unit.COUNT, "by their callers; in no latency of everybody",
                _ended(Outcome.CANCELLED)),
        Measure("failed", "failed", Unit.COUNT, "ended by an error or by the end of the engine", _ended(FAILED)),
        Measure("unfinished", "unfinished", Unit.COUNT, "the run ended before they did", _ended(Outcome.UNFINISHED)),
        Measure("served_fraction", "served", Unit.SHARE, "finished / submitted", _part(_FINISHED, _submitted)),
    )),
    Group("Rates of the whole run", (
        Measure("makespan_us", "makespan", Unit.SPAN, "end of the last step - first arrival",
                _makespan),
        Measure("requests_per_s", "requests/s", Unit.RATE, "finished / makespan", _rate(_FINISHED)),
        Measure("output_tokens_per_s", "output tokens/s", Unit.RATE,
                "generated tokens / makespan, whatever became of their requests", _rate(_GENERATED)),
        Measure("prompt_tokens_computed_per_s", "prompt tokens/s computed", Unit.RATE,
                "of requests with a first token / makespan", _rate(_prompt(cached=False))),
        Measure("prompt_tokens_cached_per_s", "prompt tokens/s from cache", Unit.RATE,
                "the same, taken over instead of computed", _rate(_prompt(cached=True))),
        Measure("good_requests_per_s", "goodput", Unit.RATE,
                "good requests / makespan; good: finished and within every objective", _rate(_good)),
        Measure("good_of_submitted", "good of submitted", Unit.SHARE, "good / submitted", _part(_good, _submitted)),
        Measure("good_of_finished", "good of finished", Unit.SHARE, "good / finished", _part(_good, _FINISHED)),
    )),
    Group("Steps and memory", (
        Measure("steps", "steps", Unit.COUNT, "with rows", _steps("num_steps")),
        Measure("mean_rows", "rows a step", Unit.NUMBER, "mean over steps", _steps("mean_rows")),
        Measure("mean_sequences", "sequences a step", Unit.NUMBER, "mean over steps", _steps("mean_sequences")),
        Measure("batch_utilization", "batch utilisation", Unit.SHARE,
                "sum(rows x duration) / (rows allowed x busy time)", _steps("batch_utilization")),
        Measure("idle_fraction", "idle", Unit.SHARE, "time without a step / all time", _steps("idle_fraction")),
        Measure("mean_waiting", "waiting, mean", Unit.NUMBER, "requests without a slot, weighted by time",
                _waiting("mean_waiting")),
        Measure("num_waiting_peak", "waiting, most", Unit.COUNT, "at any moment", _waiting("num_waiting_peak")),
        Measure("kv_utilization", "KV utilisation", Unit.SHARE,
                "sum(places held while a step runs x duration) / (pool x all time)", _memory("kv_utilization")),
        Measure("kv_peak", "KV peak", Unit.SHARE, "most places held at once / pool", _kv_peak_share),
        Measure("kv_fragmentation", "KV fragmentation", Unit.SHARE, "held places without a token, weighted by time",
                _memory("kv_fragmentation")),
    )),
    Group("Prefix cache and preemption", (
        Measure("token_hit_rate", "token hit rate", Unit.SHARE,
                "cached / prompt tokens of requests that were looked up in a prefix cache", _hit_rate),
        Measure("evictions", "evictions", Unit.COUNT, "cached blocks or runs that had to go", _evictions),
        Measure("preemptions", "preemptions", Unit.COUNT, "how often a running request lost its place",
                _total("preemptions")),
        Measure("recomputed_tokens", "recomputed tokens", Unit.COUNT, "positions computed again for that",
                _total("recomputed_tokens")),
    )),
)  # fmt: skip
"""Everything, in the order of pages and of CSV columns."""

_EVERYBODY: Final = "of everybody but planned cancellations; one that did not finish counts as larger than all"

HEADLINES: Final = (
    Measure("ttft_p50_us", "TTFT p50", Unit.TIME, f"first token - arrival, {_EVERYBODY}", _quantile("ttft", "p50")),
    Measure("ttft_p99_us", "TTFT p99", Unit.TIME, "the same; none below 100 requests", _quantile("ttft", "p99")),
    Measure("itl_p50_us", "ITL p50", Unit.TIME, "gap between two tokens, all gaps pooled", _gap("p50")),
    Measure("itl_p99_us", "ITL p99", Unit.TIME, "the same; none below 100 gaps", _gap("p99")),
    Measure("e2e_p50_us", "E2E p50", Unit.TIME, f"last token - arrival, {_EVERYBODY}", _quantile("e2e", "p50")),
    Measure("e2e_p99_us", "E2E p99", Unit.TIME, "the same; none below 100 requests", _quantile("e2e", "p99")),
)
"""Latencies that stand beside the others in the overview and in CSV."""

_OVERVIEW: Final = ("finished", "requests_per_s", "output_tokens_per_s")
_OVERVIEW_END: Final = ("mean_rows", "kv_peak", "token_hit_rate", "good_of_submitted")
_BY_NAME: Final = {measure.name: measure for group in GROUPS for measure in group.measures}

OVERVIEW: Final = (
    *(_BY_NAME[name] for name in ("submitted", *_OVERVIEW)),
    *HEADLINES,
    *(_BY_NAME[name] for name in _OVERVIEW_END),
)
"""One row a run."""

COLUMNS: Final = (*_BY_NAME.values(), *HEADLINES)
"""Of CSV."""
