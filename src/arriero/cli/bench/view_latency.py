"""The two latency tables of a summary: of requests that ended normally, and of all with failures as infinite."""

from collections.abc import Iterator
from typing import Final

from arriero.metrics.client_figures import ClientSummary, Distribution, LatencyTable

_COLUMNS: Final = ("mean", "p50", "p90", "p95", "p99", "p99_9", "max")
_ROWS: Final = (
    ("ttft_ns", "TTFT"),
    ("service_ttft_ns", "service TTFT"),
    ("itl_ns", "ITL (pooled)"),
    ("icl_ns", "ICL (chunks)"),
    ("itl_max_ns", "largest gap"),
    ("tpot_ns", "TPOT"),
    ("normalised_ns", "E2E / tokens"),
    ("e2e_ns", "E2E"),
    ("service_e2e_ns", "service E2E"),
    ("closing_ns", "closing"),
)


def latency_lines(summary: ClientSummary) -> Iterator[str]:
    """Both tables, milliseconds."""
    yield from _table("finished", summary.latency.finished, shows_chunks=summary.lengths.shows_chunks)
    if summary.latency.all is None:
        yield f"all: {summary.definitions} has no such table"
    elif summary.latency.all == summary.latency.finished:
        yield "all: the same, because no request failed"
    else:
        yield from _table("all, failures inf", summary.latency.all, shows_chunks=summary.lengths.shows_chunks)
    if summary.send_lag_ns is not None:
        yield _line("send lag", summary.send_lag_ns)


def _table(title: str, table: LatencyTable, *, shows_chunks: bool) -> Iterator[str]:
    heads = "".join(f"{name.replace('_', '.'):>11}" for name in ("n", *_COLUMNS))
    yield f"{title + ', ms':<24}" + heads
    for field, name in _ROWS:
        values: Distribution | None = getattr(table, field)
        if values is None or (field == "icl_ns" and not shows_chunks):
            continue
        yield _line(name, values)


def _line(name: str, values: Distribution) -> str:
    number = f"{values.n}+{values.num_infinite}" if values.num_infinite else str(values.n)
    return f"  {name:<22}{number:>11}" + "".join(f"{_figure(values, column):>11}" for column in _COLUMNS)


def _figure(values: Distribution, column: str) -> str:
    value: float | None = getattr(values, column)
    if value is not None:
        return f"{value / 1e6:.2f}"
    return "inf" if values.is_infinite(column) else "-"
