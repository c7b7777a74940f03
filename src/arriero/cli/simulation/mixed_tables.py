"""The tables of `arriero sim mixed-decode`: figures of each run, and what they say about the policies."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from arriero.metrics.mixed_decode import MixedFigures, MixedPolicy

Figures: TypeAlias = Mapping[MixedPolicy, MixedFigures]
Ask: TypeAlias = Callable[[str, int, int, tuple[MixedPolicy, ...]], Figures]
"""Workload, slots, n_batch, policies → figures."""

SHORT: Final = MappingProxyType({
    MixedPolicy.FIFO: "fifo",
    MixedPolicy.STATIC: "static",
    MixedPolicy.CONTINUOUS: "continuous",
})
BATCHING: Final = (MixedPolicy.STATIC, MixedPolicy.CONTINUOUS)

HEADINGS: Final = (
    f"{'workload':<26} {'policy':<10} {'makespan':>9}"
    f" {'lat p50':>9} {'p95':>9} {'p99':>9} {'TTFT p50':>9} {'p95':>9} {'p99':>9}"
    f" {'rows/call':>9} {'calls':>6} {'iters':>6} {'rows':>6}"
)
_TIMES: Final = tuple(f"{name}_ms_p{percent}" for name in ("total_latency", "ttft") for percent in (50, 95, 99))
_SWEEP_SLOTS: Final = (2, 4, 8)
_SWEEP_ROWS: Final = (32, 128)
_GRID_SLOTS: Final = (1, 2, 4, 8, 16)
_GRID_ROWS: Final = (32, 128, 512)


def figures_line(name: str, policy: MixedPolicy, figures: MixedFigures) -> str:
    """One run."""
    details = figures.details
    times = " ".join(f"{details[column]:9.3f}" for column in _TIMES)
    iterations = int(details["n_iterations"])
    rows = round(details["average_batch_rows"] * iterations)
    return (
        f"{name:<26} {SHORT[policy]:<10} {figures.makespan_ms:9.3f} {times}"
        f" {figures.tokens_per_decode_call:9.3f} {figures.decode_calls:6d} {iterations:6d} {rows:6d}"
    )


def gains(found: Mapping[str, Figures]) -> Iterator[str]:
    """Continuous against static, in percent."""
    yield f"{'continuous against static':<26} {'makespan':>10} {'TTFT p50':>10} {'calls':>10} {'rows/call':>10}"
    for name, figures in found.items():
        static, continuous = (figures[policy] for policy in BATCHING)
        pairs = (
            (static.makespan_ms, continuous.makespan_ms),
            (static.details["ttft_ms_p50"], continuous.details["ttft_ms_p50"]),
            (static.decode_calls, continuous.decode_calls),
            (static.tokens_per_decode_call, continuous.tokens_per_decode_call),
        )
        cells = " ".join(f"{(after / before - 1) * 100:+9.2f}%" for before, after in pairs)
        yield f"{name:<26} {cells}"


def classes(name: str, figures: Figures, labels: tuple[str, ...]) -> Iterator[str]:
    """Percentiles of each class of one workload."""
    yield f"{name + ' by class':<26} {'policy':<10} {'lat p50':>10} {'p95':>10} {'TTFT p50':>10} {'p95':>10}"
    for policy in BATCHING:
        details = figures[policy].details
        for label in labels:
            columns = (f"class_{label}_{metric}_p{p}" for metric in ("total_latency_ms", "ttft_ms") for p in (50, 95))
            yield f"{label:<26} {SHORT[policy]:<10} " + " ".join(f"{details[column]:10.3f}" for column in columns)


def sweep(name: str, ask: Ask) -> Iterator[str]:
    """Static and continuous over slots and rows of a call."""
    columns = ("makespan", "lat p50", "TTFT p50", "calls")
    yield f"{name + ', static / continuous':<46}" + "".join(f"{column:>18}" for column in columns)
    for slots in _SWEEP_SLOTS:
        for n_batch in _SWEEP_ROWS:
            static, continuous = (ask(name, slots, n_batch, BATCHING)[policy] for policy in BATCHING)
            cells = (
                f"{static.makespan_ms:.1f} / {continuous.makespan_ms:.1f}",
                f"{static.details['total_latency_ms_p50']:.1f} / {continuous.details['total_latency_ms_p50']:.1f}",
                f"{static.details['ttft_ms_p50']:.1f} / {continuous.details['ttft_ms_p50']:.1f}",
                f"{static.decode_calls} / {continuous.decode_calls}",
            )
            yield f"{f'{slots} slots, n_batch {n_batch}':<46}" + "".join(f"{cell:>18}" for cell in cells)


def grid(name: str, ask: Ask) -> Iterator[str]:
    """Makespans of all policies and rows per call of the batching ones, over slots and rows of a call."""
    policies = (MixedPolicy.FIFO, *BATCHING)
    yield f"{name + ', fifo / static / continuous':<46}{'makespan':>30}{'rows/call':>20}"
    for slots in _GRID_SLOTS:
        for n_batch in _GRID_ROWS:
            figures = ask(name, slots, n_batch, policies)
            makespans = " / ".join(f"{figures[policy].makespan_ms:.1f}" for policy in policies)
            rows = " / ".join(f"{figures[policy].tokens_per_decode_call:.3f}" for policy in BATCHING)
            yield f"{f'{slots} slots, n_batch {n_batch}':<46}{makespans:>30}{rows:>20}"
