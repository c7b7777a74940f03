"""IdChoice: on which sequence id a request starts, and what has to leave it.

    FreeFirst     an id without a run, the next of the supply; then the run used least recently gives way
    LowestOfAll   the lowest id on which nobody runs, whatever lies there: each hole between the ids of a batch costs a
                  pass over the weights, and what gives way is taken over in place or kept by the host store
    OwnSlot       a session goes on in the slot of its run

An id that a cancel has just freed rests for a step; as long as one does, no run gives way for want of an id.
"""

from typing import NamedTuple, Protocol

from arriero.core.ids import SequenceId
from arriero.kv.books import Books
from arriero.kv.lookups import RunHit
from arriero.kv.retained import RetainedRuns
from arriero.kv.runs import Run, Runs
from arriero.kv.served_ids import ServedIds


class Place(NamedTuple):
    """Where a request starts.

    Attributes:
        sequence_id: the id.
        resident: the run that lies there, or None: the id is free.
        in_place: whether the request goes on with that run; else it gives way.
    """

    sequence_id: SequenceId
    resident: Run | None = None
    in_place: bool = False


class IdChoice(Protocol):
    """Changes nothing."""

    def choose(self, origin: Run | None, hit: RunHit | None) -> Place | None:
        """A place for a request that starts from `origin`, one of the runs that `hit` found; None if there is none."""
        ...


class FreeFirst:
    """Runs stay as long as they can."""

    def __init__(self, ids: ServedIds, retained: RetainedRuns) -> None:
        """Choose among these."""
        self._ids = ids
        self._retained = retained

    def choose(self, origin: Run | None, hit: RunHit | None) -> Place | None:
        """The next free id, else that of the run used least recently, `origin` last of all."""
        del hit
        sequence_id = self._ids.next_free()
        if sequence_id is not None:
            return Place(sequence_id)
        if self._ids.num_resting or self._retained.num_resting:
            return None
        victim = self._retained.oldest(origin)
        return None if victim is None else Place(victim.sequence_id, victim, in_place=victim is origin)


class LowestOfAll:
    """Ids in use stay close together."""

    def __init__(self, ids: ServedIds, retained: RetainedRuns, runs: Runs) -> None:
        """Choose among these."""
        self._ids = ids
        self._retained = retained
        self._runs = runs

    def choose(self, origin: Run | None, hit: RunHit | None) -> Place | None:
        """The lowest id; what lies there is taken over if it begins with what was found."""
        sequence_id, resident = self._ids.next_free(), self._retained.lowest()
        if resident is None or (sequence_id is not None and sequence_id < resident.sequence_id):
            return None if sequence_id is None else Place(sequence_id)
        serves = origin is not None and hit is not None and (resident is origin or self._runs.holds(resident, hit))
        return Place(resident.sequence_id, resident, in_place=serves)


class OwnSlot:
    """The published rule of sessions."""

    def __init__(self, others: IdChoice) -> None:
        """`others` chooses for requests that go on with nothing."""
        self._others = others

    def choose(self, origin: Run | None, hit: RunHit | None) -> Place | None:
        """The run's own id, after its rest, or what the other rule says."""
        if origin is not None:
            return None if origin.is_resting else Place(origin.sequence_id, origin, in_place=True)
        return self._others.choose(None, hit)


def id_choice(books: Books, retained: RetainedRuns, *, unified: bool) -> IdChoice:
    """What the rules and the layout ask for."""
    free_first = FreeFirst(books.ids, retained)
    if books.per_session:
        return OwnSlot(free_first)
    if books.rules is not None and books.rules.host_tokens and not unified:
        return LowestOfAll(books.ids, retained, books.runs)
    return free_first
