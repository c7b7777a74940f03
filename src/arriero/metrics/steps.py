"""What the steps of a run say about its resources, weighted by how long each lasted."""

from dataclasses import dataclass, field
from typing import NamedTuple

from arriero.metrics.rates import share


class StepFigures(NamedTuple):
    """Figures of a whole run; None where nothing was there to divide by."""

    num_steps: int  # steps with rows
    num_idle: int  # jumps over time without work
    busy_us: int
    idle_us: int
    idle_fraction: float | None  # idle / (idle + busy)
    kv_utilization: float | None  # sum(held x duration) / (pool x span)
    kv_peak: int  # the most held at once, in the unit of the pool
    kv_fragmentation: float | None  # share of the held places without a token, weighted by duration
    batch_utilization: float | None  # sum(rows x duration) / (rows allowed x busy time)
    mean_rows: float | None  # rows a step
    mean_sequences: float | None  # sequences a step
    num_waiting_peak: int
    mean_waiting: float | None  # weighted by duration


@dataclass(slots=True)
class _Counts:  # sums; a name in _us that is no time is the product of a figure and the time that it held
    steps: int = 0
    idles: int = 0
    busy_us: int = 0
    idle_us: int = 0
    rows: int = 0
    row_us: int = 0
    sequences: int = 0
    waiting_us: int = 0
    waiting_peak: int = 0
    held_us: int = 0
    held_peak: int = 0
    token_us: int = 0


@dataclass(slots=True)
class StepTally:
    """Counts steps as they happen; O(1) a step, whatever the pool and the queue.

    Attributes:
        rows_allowed: rows that one step may hold.
        kv_pool: places in KV, in cells or blocks; 0 if KV is not modelled.
        tokens_per_place: 1 for cells, the block size for blocks.
    """

    rows_allowed: int
    kv_pool: int
    tokens_per_place: int = 1
    _counts: _Counts = field(default_factory=_Counts)

    def step(self, duration_us: int, *, rows: int, sequences: int, waiting: int, kv_held: int, kv_tokens: int) -> None:
        """Count a step with rows.

        Args:
            duration_us: how long it took; may be 0.
            rows: that were computed.
            sequences: that had rows.
            waiting: requests without a slot while it ran.
            kv_held: places held while it ran, retained ones included.
            kv_tokens: tokens in those places.
        """
        counts = self._counts
        counts.steps += 1
        counts.busy_us += duration_us
        counts.rows += rows
        counts.row_us += rows * duration_us
        counts.sequences += sequences
        self._hold(counts, duration_us, waiting, kv_held, kv_tokens)

    def idle(self, duration_us: int, *, waiting: int = 0, kv_held: int = 0, kv_tokens: int = 0) -> None:
        """Count a jump over time in which nothing was computed."""
        counts = self._counts
        counts.idles += 1
        counts.idle_us += duration_us
        self._hold(counts, duration_us, waiting, kv_held, kv_tokens)

    def figures(self) -> StepFigures:
        """Everything so far."""
        counts = self._counts
        span = counts.busy_us + counts.idle_us
        capacity = counts.held_us * self.tokens_per_place
        return StepFigures(
            num_steps=counts.steps,
            num_idle=counts.idles,
            busy_us=counts.busy_us,
            idle_us=counts.idle_us,
            idle_fraction=share(counts.idle_us, span),
            kv_utilization=share(counts.held_us, self.kv_pool * span),
            kv_peak=counts.held_peak,
            kv_fragmentation=share(capacity - counts.token_us, capacity),
            batch_utilization=share(counts.row_us, self.rows_allowed * counts.busy_us),
            mean_rows=share(counts.rows, counts.steps),
            mean_sequences=share(counts.sequences, counts.steps),
            num_waiting_peak=counts.waiting_peak,
            mean_waiting=share(counts.waiting_us, span),
        )

    @staticmethod
    def _hold(counts: _Counts, duration_us: int, waiting: int, kv_held: int, kv_tokens: int) -> None:
        counts.waiting_us += waiting * duration_us
        counts.waiting_peak = max(counts.waiting_peak, waiting)
        counts.held_us += kv_held * duration_us
        counts.held_peak = max(counts.held_peak, kv_held)
        counts.token_us += kv_tokens * duration_us
