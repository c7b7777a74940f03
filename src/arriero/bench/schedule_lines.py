"""Places: at what time, or after whom, each request of a workload is sent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arriero.core.errors import ConfigError
from arriero.workload.notes import Notes, notes_of
from arriero.workload.records import WorkloadRecord

_NS_PER_US = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a request stands.

    Attributes:
        at_ns: from the start of the run; None if it waits for somebody.
        follows: the request whose end it waits for.
        think_ns: from that end, or from the end of its client's previous request.
    """

    at_ns: int | None = None
    follows: str | None = None
    think_ns: int = 0


def replayed_places(records: Sequence[WorkloadRecord], speed: float) -> list[Place]:
    """By the workload's own clock, and by its own notes; times are divided by `speed`.

    Raises:
        ConfigError: a request follows one that is not among them.
    """
    begins_us = min((record.arrival_time_us for record in records), default=0)
    places: list[Place] = []
    for record, notes in _noted(records):
        if notes.follows is None:
            places.append(Place(at_ns=round((record.arrival_time_us - begins_us) * _NS_PER_US / speed)))
        else:
            places.append(Place(follows=notes.follows, think_ns=round(_think_ns(notes) / speed)))
    return places


def timed_places(records: Sequence[WorkloadRecord], times: Sequence[int]) -> list[Place]:
    """Requests, or conversations, at these times, nanoseconds from the start.

    A conversation that the workload puts on a clock keeps the distances between its turns. Think times of a workload's
    own clients do not count: nobody waits here. Requests beyond the last time are left to follow nobody, at no time,
    and so are dropped by whoever cuts the schedule.
    """
    arrivals = iter(times)
    starts: dict[str, tuple[int, int]] = {}  # conversation → its arrival here, its arrival in the workload
    places: list[Place] = []
    for record, notes in _noted(records):
        session, is_turn = notes.session_id, bool(notes.turn)
        if notes.follows is not None and notes.client is None:
            places.append(Place(follows=notes.follows, think_ns=_think_ns(notes)))
        elif session is not None and is_turn and session in starts:
            at, recorded_us = starts[session]
            places.append(Place(at_ns=at + (record.arrival_time_us - recorded_us) * _NS_PER_US))
        else:
            at = next(arrivals, -1)
            if session is not None and at >= 0:
                starts[session] = (at, record.arrival_time_us)
            places.append(Place(at_ns=at if at >= 0 else None))
    return places


def free_places(records: Sequence[WorkloadRecord]) -> list[Place]:
    """For clients that share them: only turns follow anybody, and always their previous turn."""
    last_turns: dict[str, str] = {}
    places: list[Place] = []
    for record, notes in _noted(records):
        session = notes.session_id
        before = notes.follows if notes.client is None else None
        if before is None and session is not None:
            before = last_turns.get(session)
        if session is not None:
            last_turns[session] = record.request_id
        places.append(Place(follows=before, think_ns=_think_ns(notes)))
    return places


def _noted(records: Sequence[WorkloadRecord]) -> Iterator[tuple[WorkloadRecord, Notes]]:
    known: set[str] = set()
    for record in records:
        notes = notes_of(record)
        if notes.follows is not None and notes.follows not in known:
            raise ConfigError(f"request {record.request_id!r} follows {notes.follows!r}, which is not among those sent")
        known.add(record.request_id)
        yield record, notes


def _think_ns(notes: Notes) -> int:
    return (notes.think_time_us or 0) * _NS_PER_US
