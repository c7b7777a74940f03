"""How full the slots were, from the rows that a server wrote about its steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arriero.bench.experiments.experiment import Statement, Value
from arriero.bench.experiments.samples import ratio, rounded
from arriero.record.diagnostics import IterRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Figures of some steps; means over the steps that had rows.

    Attributes:
        steps: those with rows.
        mean_active: requests that held a slot.
        queued_steps: steps after whose admissions somebody still waited.
        mean_active_queued: requests that held a slot in those; None if there was none.
        mean_depth: requests that waited.
        mean_rows: rows of a batch.
        rows: all of them.
        busy_us: inside these steps.
        span_us: the same and the waits before them.
        busy_slot_us: slots that were held, times how long.
    """

    steps: int
    mean_active: float | None
    queued_steps: int
    mean_active_queued: float | None
    mean_depth: float | None
    mean_rows: float | None
    rows: int
    busy_us: int
    span_us: int
    busy_slot_us: int

    @property
    def queue_share(self) -> float | None:
        """The share of steps after whose admissions somebody still waited."""
        return ratio(self.queued_steps, self.steps)

    @property
    def active_in_time(self) -> float | None:
        """Slots that were held on the average over time, pauses of the engine included."""
        return ratio(self.busy_slot_us, self.span_us)


OCCUPANCY_HEADS = (
    "steps", "mean active", "mean active, queue > 0", "share of steps with a queue", "mean queue depth",
    "mean rows", "mean active over time",
)  # fmt: skip


def occupancy(rows: Sequence[IterRow]) -> Occupancy:
    """Of the passes of an engine's loop, those without rows among them."""
    computed = [row for row in rows if row.batch_n_tokens]
    queued = [row for row in computed if row.waiting_queue_depth_after_admission]
    return Occupancy(
        steps=len(computed),
        mean_active=_mean([row.active_seq_count for row in computed]),
        queued_steps=len(queued),
        mean_active_queued=_mean([row.active_seq_count for row in queued]),
        mean_depth=_mean([row.waiting_queue_depth_after_admission for row in computed]),
        mean_rows=_mean([row.batch_n_tokens for row in computed]),
        rows=sum(row.batch_n_tokens for row in computed),
        busy_us=sum(row.iter_wall_us for row in computed),
        span_us=sum(row.iter_wall_us + row.idle_wait_us for row in rows),
        busy_slot_us=sum(row.iter_wall_us * row.active_seq_count for row in computed),
    )


def cells_of(found: Occupancy) -> tuple[Value, ...]:
    """For a table, in the order of `OCCUPANCY_HEADS`."""
    return (
        found.steps,
        rounded(found.mean_active),
        rounded(found.mean_active_queued, 6),
        rounded(found.queue_share),
        rounded(found.mean_depth),
        rounded(found.mean_rows),
        rounded(found.active_in_time),
    )


def after_ends(rows: Sequence[IterRow], num_ends: int) -> list[IterRow]:
    """The passes after the one in which so many requests had ended: what is left without the warm-up."""
    left = num_ends
    for index, row in enumerate(rows):
        if left <= 0:
            return list(rows[index:])
        left -= row.completed_in_iter + row.cancelled_in_iter + row.failed_in_iter
    return []


def judge_crowded(
    found: Occupancy, *, slots: int, requests: int, budget: int, prompt_tokens: int
) -> Iterator[Statement]:
    """More clients than slots: a slot is never empty while somebody waits."""
    word = "crowded"
    yield Statement.equal(f"{word}: mean active while the queue is not empty", found.mean_active_queued, float(slots))
    share = found.queue_share
    yield Statement.so(
        f"{word}: share of steps with a queue", rounded(share), "above 0.95", holds=share is not None and share > 0.95
    )
    ideal = budget * requests / slots
    yield Statement.between(f"{word}: steps for {requests} requests", found.steps, ideal, ideal * 1.01)
    rows = requests * (prompt_tokens + budget - 1)
    yield Statement.equal(f"{word}: rows of all requests, P + D - 1 each", found.rows, rows)


def judge_matched(found: Occupancy, crowded: Occupancy) -> Iterator[Statement]:
    """As many clients as slots: nobody ever waits, and slots stand empty between two requests."""
    yield Statement.equal("as many clients as slots: steps with a queue", found.queued_steps, 0)
    lower = (
        found.mean_active is not None and crowded.mean_active is not None and found.mean_active < crowded.mean_active
    )
    yield Statement.so(
        "as many clients as slots: mean active over all steps",
        rounded(found.mean_active),
        f"below the {rounded(crowded.mean_active)} of the crowded cell",
        holds=lower,
    )


def judge_offered(name: str, rows: Sequence[IterRow], *, slots: int, fault: str | None) -> Statement:
    """Arrivals that do not wait for answers: nobody waits beside an empty slot.

    Args:
        name: of the load.
        rows: of the engine's loop.
        slots: of the server.
        fault: why the load was not the one that was wanted; None if it was.
    """
    text = f"{name}: steps in which somebody waited beside an empty slot"
    if fault is not None:
        return Statement.undecided(text, "exactly 0", fault)
    beside = sum(row.waiting_queue_depth_after_admission > 0 and row.active_seq_count < slots for row in rows)
    return Statement.equal(text, beside, 0)


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
