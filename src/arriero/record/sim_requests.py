"""Rules of request rows in arriero's own mode: what one keeps by itself, and what all of them say together."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from arriero.metrics.served import Outcome, ServedTally
from arriero.metrics.window import measured_window
from arriero.record.lab_place import Place
from arriero.record.sim_rows import SimRequestRow
from arriero.record.simulation_config import Blocks, Cells, Measured, SimulationConfig, Slots


def check_sim_request(row: SimRequestRow, config: SimulationConfig, place: Place) -> None:
    """Every rule that needs nothing but the row and the configuration.

    Raises:
        DataError: names line and field.
    """
    times = row.token_at_us
    place.require(row, {"generated_tokens": len(times), "first_token_at_us": times[0] if times else None})
    _check_order(row, place)
    _check_outcome(row, place)
    _check_cache(row, config, place)
    if isinstance(config.kv, Slots):
        place.require(row, {"preemptions": 0})
    if not row.preemptions:
        place.require(row, {"recomputed_tokens": 0})


@dataclass(slots=True)
class Sources:
    """Where the cached tokens of first starts came from, by its word: how many requests, how many tokens."""

    hits: Counter[str] = field(default_factory=Counter[str])
    tokens: Counter[str] = field(default_factory=Counter[str])

    def add(self, row: SimRequestRow) -> None:
        """Count one row."""
        if row.prefix is not None:
            self.hits[str(row.prefix)] += 1
            self.tokens[str(row.prefix)] += row.cached_tokens


class SimRequestSums:
    """Numbers, identities and the tally of the rows so far.

    Attributes:
        sources: of cached tokens.
    """

    def __init__(self, window: Measured | None) -> None:
        """Start from nothing."""
        self.tally = ServedTally()
        self.sources = Sources()
        self._window = window
        self._tokens: _WindowTokens | None = None
        self._names: set[str] = set()
        self._first_arrival: int | None = None
        self._before: tuple[int, str] = (-1, "")
        self.last_finish = 0

    @property
    def num_requests(self) -> int:
        """Rows so far."""
        return len(self._names)

    @property
    def first_arrival(self) -> int:
        """When the first one came; 0 without any."""
        return self._first_arrival or 0

    def add(self, row: SimRequestRow, place: Place) -> None:
        """Count one row.

        Raises:
            DataError: an id is used twice or out of order.
        """
        place.require(row, {"internal_id": len(self._names) + 1})
        if row.request_id in self._names:
            raise place.broken("request_id", f"{row.request_id!a} was used before; give each its own")
        key = row.arrival_at_us, row.request_id
        if key < self._before:
            raise place.broken("internal_id", "is not in the order of (arrival_at_us, request_id); run again")
        self._before = key
        self._names.add(row.request_id)
        self.tally.add(row.served, row.token_at_us)
        self.sources.add(row)
        self.last_finish = max(self.last_finish, row.finished_at_us or 0)
        if self._first_arrival is None:
            self._first_arrival = row.arrival_at_us
            if self._window is not None:
                self._tokens = _WindowTokens(row.arrival_at_us + self._window.warm_up_us)
        if self._tokens is not None and self._window is not None:
            self._tokens.add(row.token_at_us, row.arrival_at_us - self._window.cool_down_us)

    def finish(self) -> ServedTally:
        """The tally, once there are no more rows: only then it is known where its window ends."""
        if self._window is not None and self._first_arrival is not None and self._tokens is not None:
            window = self._window
            found = measured_window(self._first_arrival, self._before[0], window.warm_up_us, window.cool_down_us)
            self.tally.window = found
            self.tally.tokens_in_window = self._tokens.num_inside
        return self.tally


class _WindowTokens:
    """Counts tokens up to an end that moves with each arrival; only those behind it are kept."""

    def __init__(self, begins_at: int) -> None:
        self._begins_at = begins_at
        self._later: list[int] = []  # a heap
        self.num_inside = 0

    def add(self, token_at: Sequence[int], ends_at: int) -> None:
        """One more request's tokens, and the end as it is now; it never goes back."""
        for at in token_at:
            if at >= self._begins_at:
                heapq.heappush(self._later, at)
        while self._later and self._later[0] <= ends_at:
            heapq.heappop(self._later)
            self.num_inside += 1


def _check_order(row: SimRequestRow, place: Place) -> None:
    moments: tuple[tuple[str, int | None], ...] = (
        ("arrival_at_us", row.arrival_at_us),
        ("started_at_us", row.started_at_us),
        ("first_token_at_us", row.first_token_at_us),
        ("finished_at_us", row.finished_at_us),
    )
    before = 0
    for name, at in moments:
        if at is not None and at < before:
            raise place.broken(name, f"{at} lies before {before}, the moment before it; run again")
        before = before if at is None else at
    if any(later < earlier for earlier, later in pairwise(row.token_at_us)):
        raise place.broken("token_at_us", "go back in time; run again")


def _check_outcome(row: SimRequestRow, place: Place) -> None:
    is_finished = row.outcome is Outcome.FINISHED
    if is_finished:
        last = row.token_at_us[-1] if row.token_at_us else row.finished_at_us
        place.require(row, {"generated_tokens": row.max_new_tokens, "finished_at_us": last})
    if is_finished != (row.finished_at_us is not None):
        raise place.broken("finished_at_us", f"does not go with the outcome {row.outcome}; run again")
    is_told = row.outcome in {Outcome.REJECTED, Outcome.CANCELLED}
    if is_told != (row.reason is not None):
        raise place.broken("reason", f"does not go with the outcome {row.outcome}; run again")
    if row.outcome is Outcome.REJECTED:
        place.require(row, {"started_at_us": None})
    if row.started_at_us is None:
        place.require(row, {"generated_tokens": 0, "cached_tokens": 0, "looked_up": False, "recomputed_tokens": 0})
        if is_finished:
            raise place.broken("started_at_us", "is null in a finished request; run again")
    if row.generated_tokens > row.max_new_tokens:
        raise place.broken("generated_tokens", f"is above max_new_tokens, {row.max_new_tokens}; run again")


def _check_cache(row: SimRequestRow, config: SimulationConfig, place: Place) -> None:
    kv = config.kv
    has_cache = kv.prefix_cache if isinstance(kv, Blocks) else isinstance(kv, Cells) and kv.reuse is not None
    if row.looked_up and not has_cache:
        raise place.broken("looked_up", "is true, but the configuration has no prefix cache; run again")
    if row.cached_tokens and not row.looked_up:
        raise place.broken("cached_tokens", "come from no lookup; run again")
    if row.cached_tokens > row.prompt_tokens:
        raise place.broken("cached_tokens", f"are more than the prompt's {row.prompt_tokens}; run again")
    if (row.cached_tokens > 0) != (row.prefix is not None):
        raise place.broken("prefix", f"does not go with {row.cached_tokens} cached tokens; run again")
    if isinstance(kv, Blocks) and row.cached_tokens % kv.block_size:
        raise place.broken("cached_tokens", f"are no whole blocks of {kv.block_size}; run again")
