"""ServedIds: a supply of sequence ids, less those that memory would not clear, with who held each of them last."""

from typing import Final

from arriero.core.events import AdmissionSource
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.protocol import ReleaseCause
from arriero.kv.sequence_ids import SequenceIds


class ServedIds:
    """An id is free, resting, handed out, or out of service; the last for good, whoever holds it.

    Attributes:
        begin_step: end the rest of ids that a cancel freed in an earlier step; the supply's own, as each step calls it.
    """

    def __init__(self, ids: SequenceIds) -> None:
        """All ids of the supply are in service."""
        self.begin_step: Final = ids.begin_step
        self._ids = ids
        self._quarantined: dict[SequenceId, None] = {}
        self._last_owner: dict[SequenceId, RequestId] = {}

    @property
    def num_free(self) -> int:
        """Ids that can be handed out, now or after their rest."""
        return self._ids.num_free

    @property
    def num_resting(self) -> int:
        """Ids that can be handed out after `begin_step` only."""
        return self._ids.num_resting

    @property
    def num_quarantined(self) -> int:
        """Ids out of service."""
        return len(self._quarantined)

    def is_quarantined(self, sequence_id: SequenceId) -> bool:
        """Whether an id is out of service."""
        return sequence_id in self._quarantined

    def next_free(self) -> SequenceId | None:
        """The id that comes next."""
        return self._ids.next_free()

    def claim(self, sequence_id: SequenceId) -> AdmissionSource:
        """Hand out a free id and say how it became free; the next one at once, another in O(ids)."""
        if sequence_id == self._ids.next_free():
            taken = self._ids.take()
            assert taken is not None, "the next free id is free"
            return taken[1]
        return self._ids.claim(sequence_id)

    def put_back(self, sequence_id: SequenceId, cause: ReleaseCause, num_waiting: int) -> None:
        """Take an id back, unless it is out of service."""
        if sequence_id not in self._quarantined:
            self._ids.put_back(sequence_id, cause, num_waiting)

    def quarantine(self, sequence_id: SequenceId) -> None:
        """Take an id out of service for good, also while somebody holds it."""
        if sequence_id not in self._quarantined:
            self._quarantined[sequence_id] = None
            self._ids.quarantine(sequence_id)

    def change_owner(self, sequence_id: SequenceId, request_id: RequestId) -> RequestId | None:
        """Note who holds an id now; returns who held it before."""
        previous = self._last_owner.get(sequence_id)
        self._last_owner[sequence_id] = request_id
        return previous

    def owner(self, sequence_id: SequenceId) -> RequestId:
        """Who holds an id, or held it last; only to be asked of an id that was held."""
        return self._last_owner[sequence_id]

    def idle(self) -> frozenset[SequenceId]:
        """Every id that nobody holds and that is in service, for checks."""
        return self._ids.idle()

    def quarantined(self) -> frozenset[SequenceId]:
        """Every id out of service, for checks."""
        return frozenset(self._quarantined)
