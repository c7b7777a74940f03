"""Which sequence ids are free, which one comes next, and which rest.

An id freed by a cancel rests until the next step begins, so that the step that clears it never fills it again.
`LowestFirst` serves the live engine: llama.cpp computes consecutive, ascending ids in one micro-batch, and every hole
costs another pass over the weights. `PooledIds` keeps the published prototype's pools, in which an id that a preloaded
request completed on stays out of use unless `reuse_completed` is set; gates compare against its counts.
"""

import heapq
from typing import Protocol

from arriero.core.errors import InvariantViolation
from arriero.core.events import AdmissionSource
from arriero.core.ids import SequenceId
from arriero.kv.protocol import ReleaseCause


class SequenceIds(Protocol):
    """A supply of sequence ids."""

    def begin_step(self) -> None:
        """End the rest of ids that a cancel freed in an earlier step."""
        ...

    def take(self) -> tuple[SequenceId, AdmissionSource] | None:
        """Hand out the next id and say how it became free, or None if none is free now."""
        ...

    def next_free(self) -> SequenceId | None:
        """The id that `take` would hand out."""
        ...

    def claim(self, sequence_id: SequenceId) -> AdmissionSource:
        """Hand out one free id instead of the next one, in O(ids)."""
        ...

    def put_back(self, sequence_id: SequenceId, cause: ReleaseCause, num_waiting: int) -> None:
        """Take an id back."""
        ...

    def quarantine(self, sequence_id: SequenceId) -> None:
        """Take a free or resting id out of service for good."""
        ...

    @property
    def num_free(self) -> int:
        """Ids that can be handed out, now or after their rest."""
        ...

    @property
    def num_resting(self) -> int:
        """Ids that can be handed out after `begin_step` only."""
        ...

    def idle(self) -> frozenset[SequenceId]:
        """Every id that nobody holds and that is not quarantined, in use again or not."""
        ...


class LowestFirst:
    """All free ids in one heap, lowest first: O(log n) to take and to put back."""

    def __init__(self, num_sequences: int) -> None:
        """Start with ids 0 ... num_sequences - 1 free."""
        self._free = [SequenceId(i) for i in range(num_sequences)]
        self._resting: list[SequenceId] = []
        self._source = dict.fromkeys(self._free, AdmissionSource.INITIAL_IDLE)

    def begin_step(self) -> None:
        """End the rest of ids that a cancel freed in an earlier step."""
        for sequence_id in self._resting:
            heapq.heappush(self._free, sequence_id)
        self._resting.clear()

    def take(self) -> tuple[SequenceId, AdmissionSource] | None:
        """Hand out the lowest free id and say how it became free."""
        if not self._free:
            return None
        sequence_id = heapq.heappop(self._free)
        return sequence_id, self._source[sequence_id]

    def next_free(self) -> SequenceId | None:
        """The lowest free id."""
        return self._free[0] if self._free else None

    def claim(self, sequence_id: SequenceId) -> AdmissionSource:
        """Hand out one free id."""
        self._free.remove(sequence_id)
        heapq.heapify(self._free)
        return self._source[sequence_id]

    def put_back(self, sequence_id: SequenceId, cause: ReleaseCause, num_waiting: int) -> None:
        """Take an id back; one that a cancel freed rests first. `num_waiting` does not matter here."""
        del num_waiting
        if cause is ReleaseCause.CANCELLED:
            self._source[sequence_id] = AdmissionSource.CANCEL_FREED
            self._resting.append(sequence_id)
        else:
            self._source[sequence_id] = AdmissionSource.COMPLETION_FREED
            heapq.heappush(self._free, sequence_id)

    def quarantine(self, sequence_id: SequenceId) -> None:
        """Take a free or resting id out of service for good; O(n)."""
        for pool in (self._free, self._resting):
            if sequence_id in pool:
                pool.remove(sequence_id)
        heapq.heapify(self._free)

    @property
    def num_free(self) -> int:
        """Ids that can be handed out, now or after their rest."""
        return len(self._free) + len(self._resting)

    @property
    def num_resting(self) -> int:
        """Ids that rest until the next step."""
        return len(self._resting)

    def idle(self) -> frozenset[SequenceId]:
        """Free and resting ids together."""
        return frozenset(self._free) | frozenset(self._resting)


class PooledIds:
    """The prototype's pools, in its order: preloaded, cancel-freed, completion-freed, initially idle.

    An id below `num_preloaded` belongs to a preloaded request. Idle origin is a property of the id alone: a slot that
    was idle at the start goes back to the idle pool whenever a request completes on it, whatever its last source was.
    """

    def __init__(self, num_sequences: int, *, num_preloaded: int, reuse_completed: bool) -> None:
        """Start with ids below `num_preloaded` set aside for preloaded requests, the others idle."""
        if num_preloaded > num_sequences:
            message = f"{num_preloaded} preloaded requests on {num_sequences} sequences"
            raise InvariantViolation(message)
        self._num_preloaded = num_preloaded
        self._reuse_completed = reuse_completed
        self._pools: dict[AdmissionSource, list[SequenceId]] = {
            AdmissionSource.NONE: [SequenceId(i) for i in range(num_preloaded)],
            AdmissionSource.CANCEL_FREED: [],
            AdmissionSource.COMPLETION_FREED: [],
            AdmissionSource.INITIAL_IDLE: [SequenceId(i) for i in range(num_preloaded, num_sequences)],
        }
        self._resting: list[SequenceId] = []
        self._retired: list[SequenceId] = []

    def begin_step(self) -> None:
        """Move what a cancel freed in an earlier step into its pool."""
        for sequence_id in self._resting:
            heapq.heappush(self._pools[AdmissionSource.CANCEL_FREED], sequence_id)
        self._resting.clear()

    def take(self) -> tuple[SequenceId, AdmissionSource] | None:
        """Hand out the lowest id of the first pool that has one."""
        for source, pool in self._pools.items():
            if pool:
                return heapq.heappop(pool), source
        return None

    def next_free(self) -> SequenceId | None:
        """The lowest id of the first pool that has one."""
        return next((pool[0] for pool in self._pools.values() if pool), None)

    def claim(self, sequence_id: SequenceId) -> AdmissionSource:
        """Hand out one id of whichever pool has it."""
        source = next(source for source, pool in self._pools.items() if sequence_id in pool)
        self._pools[source].remove(sequence_id)
        heapq.heapify(self._pools[source])
        return source

    def put_back(self, sequence_id: SequenceId, cause: ReleaseCause, num_waiting: int) -> None:
        """Take an id back into the pool of its cause, or retire it.

        A preempted request waits for a slot itself, so its own is never retired; nor is one on which a run lay.
        """
        if cause is ReleaseCause.CANCELLED:
            self._resting.append(sequence_id)
        elif cause in {ReleaseCause.PREEMPTED, ReleaseCause.EVICTED} or (self._reuse_completed and num_waiting):
            heapq.heappush(self._pools[AdmissionSource.COMPLETION_FREED], sequence_id)
        elif sequence_id >= self._num_preloaded:
            heapq.heappush(self._pools[AdmissionSource.INITIAL_IDLE], sequence_id)
        else:
            self._retired.append(sequence_id)

    def quarantine(self, sequence_id: SequenceId) -> None:
        """Take an id out of service for good; O(n)."""
        for pool in (*self._pools.values(), self._resting, self._retired):
            if sequence_id in pool:
                pool.remove(sequence_id)
        for pool in self._pools.values():
            heapq.heapify(pool)

    @property
    def num_free(self) -> int:
        """Ids that can be handed out, now or after their rest."""
        return sum(len(pool) for pool in self._pools.values()) + len(self._resting)

    @property
    def num_resting(self) -> int:
        """Ids that rest until the next step."""
        return len(self._resting)

    def idle(self) -> frozenset[SequenceId]:
        """Every id that nobody holds, retired ones included."""
        return frozenset(self._resting).union(self._retired, *self._pools.values())

    def pool_size(self, source: AdmissionSource) -> int:
        """Ids in one pool; gates compare it with published figures."""
        return len(self._pools[source])
