"""What a soak writes down: a reading of the idle server after each leg, and what the leg came to.

All of it is plain values that are added up afterwards, so a state file of a soak that was killed and resumed says the
same as that of one that was not.
"""

from typing import Final

import msgspec

from arriero.bench.soak.plan import Kind
from arriero.metrics.client_life import Outcome

NOTED: Final = 20
"""Surprises of a leg that are written down; of more only the number."""


class Reading(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server that should be idle, as it says itself and as its system sees it.

    Attributes:
        is_well: `/health` answers 200.
        resident_bytes, files, threads: of its process; None where the system does not say.
        tasks: of its event loop; None if it does not say.
        in_flight: places taken at its door.
        answering: requests that can be cancelled by their id.
        running, waiting: requests in its engine.
        active_cells, retained_cells: of its KV memory, held by requests and kept after them.
        swapped: requests whose KV waits outside the context.
        sequences_held, sequences_quarantined: sequence ids in use, and out of service.
        sequence_ids: all of them, in whatever use.
        requests: that it counted so far, by any end.
        threads_used: compute threads that it says it uses; None if it does not say.
    """

    is_well: bool
    resident_bytes: int | None
    files: int | None
    threads: int | None
    tasks: int | None
    in_flight: int
    answering: int
    running: int
    waiting: int
    active_cells: int
    retained_cells: int
    swapped: int
    sequences_held: int
    sequences_quarantined: int
    sequence_ids: int
    requests: int
    threads_used: float | None = None

    @property
    def num_requests_left(self) -> int:
        """Places, answers and requests that are still there; 0 of an idle server."""
        return self.in_flight + self.answering + self.running + self.waiting

    @property
    def num_kv_left(self) -> int:
        """Cells and requests outside the context that somebody still holds; 0 of an idle server."""
        return self.active_cells + self.swapped

    @property
    def num_sequences_left(self) -> int:
        """Sequence ids that nobody can use."""
        return self.sequences_held + self.sequences_quarantined

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left of any request."""
        return not (self.num_requests_left or self.num_kv_left or self.sequences_held)


class GapSums(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Gaps between the tokens of streams that are read at once, added up.

    Attributes:
        count: gaps.
        total_ns: all of them.
        held_ns: those within the target.
        worst_ns: the longest.
    """

    count: int = 0
    total_ns: int = 0
    held_ns: int = 0
    worst_ns: int = 0

    def __add__(self, other: "GapSums") -> "GapSums":
        return GapSums(
            count=self.count + other.count,
            total_ns=self.total_ns + other.total_ns,
            held_ns=self.held_ns + other.held_ns,
            worst_ns=max(self.worst_ns, other.worst_ns),
        )

    @property
    def held_share(self) -> float | None:
        """The share of the streams' time in gaps within the target; None without a gap."""
        return self.held_ns / self.total_ns if self.total_ns else None


class Surprise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request that ended in a way that its kind never should."""

    request_id: str
    kind: Kind
    outcome: Outcome
    error: str | None
    status: int | None


class LegRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One leg.

    Attributes:
        number: from 0.
        server: on which start, from 1.
        seconds: from its begin to its last answer.
        ends: kind → outcome → requests.
        asked: requests that were handed to the client; the sum over `ends` unless one was lost.
        num_surprises, surprises: ends that no kind should have, and the first of them.
        num_errors: answers with a status of 500 and more that are no refusal, and streams with an error in them.
        counted: requests that the server counted meanwhile.
        least_counted, most_counted: what it may have counted: a request that is left as soon as it is sent may not
            have reached it.
        quiet, beside: gaps without and beside the neighbour.
        gap_p99_ns: of all gaps; None of fewer than 100.
        first_p50_ns: first token - send, of requests that are read at once; None without one.
        visit_s, visit_cpu_s: how long the neighbour was there, and the CPU time it had.
        longest_block_ns: of the client's event loop.
        after: the server when all was drained.
    """

    number: int
    server: int
    seconds: float
    ends: dict[Kind, dict[Outcome, int]]
    asked: int
    num_surprises: int
    surprises: tuple[Surprise, ...]
    num_errors: int
    counted: int
    least_counted: int
    most_counted: int
    quiet: GapSums
    beside: GapSums
    gap_p99_ns: float | None
    first_p50_ns: float | None
    visit_s: float
    visit_cpu_s: float | None
    longest_block_ns: int
    after: Reading

    def num_of(self, outcome: Outcome) -> int:
        """Requests of any kind that ended so."""
        return sum(ends.get(outcome, 0) for ends in self.ends.values())

    @property
    def num_finished(self) -> int:
        """Requests with a whole answer."""
        return sum(number for ends in self.ends.values() for outcome, number in ends.items() if outcome.is_normal)

    @property
    def num_ended(self) -> int:
        """Requests that ended in any way."""
        return sum(number for ends in self.ends.values() for number in ends.values())


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One start of the server.

    Attributes:
        number: from 1.
        before: when it had answered a few requests and was idle again.
        how, status: its end; None while it runs, and if the soak was killed with it.
    """

    number: int
    before: Reading
    how: str | None = None
    status: int | None = None
