"""SwappedRuns: the KV of preempted requests, kept in the host store until each of them runs again.

    running ── save ──▶ swapped ── restore, forget ──▶ running
                           │
                           └── forget     its request has ended, or starts from a prefix that gives as much
                           └── refused    memory did not save it: it is computed again

Each lies under a key that nobody looks up by tokens, so no other request finds it, whatever the cache scopes are. It is
leased for as long as its request lives: room for others is never made at its expense, and what finds no room is
computed again. What was decoded comes back with the bits that decoding gave it, so it serves exact mode too.
"""

from typing import NamedTuple

from arriero.core.errors import InvariantViolation
from arriero.core.events import ForgetSaved, KvOp, SaveSequence
from arriero.core.ids import RequestId, SavedKey, SequenceId
from arriero.kv.host_books import HostBooks
from arriero.kv.ledger import Ledger, require


class Swapped(NamedTuple):
    """What the store keeps for one request."""

    key: SavedKey
    length: int  # tokens, from the first one on


class SwappedRuns:
    """At most one for each request; every verb is O(1), but for the runs that go where room is short."""

    def __init__(self, host: HostBooks, ledger: Ledger, ops: list[KvOp]) -> None:
        """Start empty; room is that of `host`, and what is ordered is added to `ops`."""
        self._host = host
        self._ledger = ledger
        self._ops = ops
        self._by_request: dict[RequestId, Swapped] = {}

    def __len__(self) -> int:
        """How many."""
        return len(self._by_request)

    @property
    def num_tokens(self) -> int:
        """Lengths of all."""
        return self._host.num_reserved

    def of(self, request_id: RequestId) -> Swapped | None:
        """What is kept for a request."""
        return self._by_request.get(request_id)

    def length(self, request_id: RequestId) -> int:
        """Tokens that are kept for a request; 0 if there are none."""
        found = self._by_request.get(request_id)
        return 0 if found is None else found.length

    def save(self, request_id: RequestId, sequence_id: SequenceId, length: int) -> bool:
        """Order that the store keeps the first `length` positions of a running sequence for its request.

        To be asked right before the sequence is released. False, and no change, where there is no room.

        Raises:
            InvariantViolation: the sequence holds less, or something is kept for this request already.
        """
        if not 0 < length <= self._ledger.lengths.get(sequence_id, 0) or request_id in self._by_request:
            message = f"{length} tokens of sequence {sequence_id} cannot be kept for request {request_id}"
            raise InvariantViolation(message)
        key = self._host.reserve(length)
        if key is None:
            return False
        self._by_request[request_id] = Swapped(key, length)
        self._ops.append(SaveSequence(sequence_id, key, length))
        return True

    def forget(self, request_id: RequestId) -> None:
        """A request needs what is kept for it no longer, if anything is; the store is told."""
        found = self._remove(request_id)
        if found is not None:
            self._ops.append(ForgetSaved(found.key))

    def refused(self, key: SavedKey) -> bool:
        """Memory did not save what was to lie under a key; whether that was one of these."""
        owner = next((request_id for request_id, each in self._by_request.items() if each.key == key), None)
        return owner is not None and self._remove(owner) is not None

    def check(self) -> None:
        """Verify the books from scratch."""
        lengths = {request_id: each.length for request_id, each in self._by_request.items()}
        keys = [each.key for each in self._by_request.values()]
        rules = (
            (sum(lengths.values()) == self._host.num_reserved, "swapped tokens and reserved ones differ"),
            (len(set(keys)) == len(keys), "two requests share one key"),
            (not any(key in self._host for key in keys), "a key names a run and what is swapped at once"),
        )
        require(rules, f"swapped {lengths}, reserved {self._host.num_reserved}")

    def _remove(self, request_id: RequestId) -> Swapped | None:
        found = self._by_request.pop(request_id, None)
        if found is not None:
            self._host.give_back(found.length)
        return found
