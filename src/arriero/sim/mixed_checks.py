"""The invariants of the published mixed-decode simulator, checked in every iteration."""

from collections.abc import Sequence

from arriero.core.errors import InvariantViolation
from arriero.core.events import Admitted, Finished
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import DecodeRow
from arriero.metrics.mixed_decode import MixedIteration, MixedPolicy, MixedRequest
from arriero.sim.simulator import SimulatedStep


class MixedChecks:
    """Keeps books of its own, from what a run tells about itself, and compares."""

    def __init__(self, policy: MixedPolicy, *, num_slots: int, n_batch: int, requests: Sequence[MixedRequest]) -> None:
        self._policy = policy
        self._num_slots = num_slots
        self._n_batch = n_batch
        self._requests = {RequestId(each.request_id): each for each in requests}
        self._owner: dict[SequenceId, RequestId] = {}
        self._prefilled: dict[RequestId, int] = {}
        self._decoded: dict[RequestId, int] = {}
        self._completed: list[RequestId] = []
        self._ended_at: float | None = None

    def step(self, step: SimulatedStep) -> None:
        """Check one iteration.

        Raises:
            InvariantViolation: names the rule.
        """
        self._clock(step)
        self._admissions(step)
        self._rows(step)
        self._completions(step)

    def end(self, iterations: Sequence[MixedIteration]) -> None:
        """Check the whole run.

        Raises:
            InvariantViolation: names the rule.
        """
        _hold(sorted(self._completed) == sorted(self._requests), "every request completes exactly once")
        rows = sum(each.batch_size for each in iterations)
        calls = sum(each.decode_calls for each in iterations)
        is_all_short = len(self._requests) > 1 and {
            (each.arrival_ms, each.prompt_tokens, each.decode_tokens) for each in self._requests.values()
        } == {(0.0, 6, 8)}
        if self._policy is MixedPolicy.CONTINUOUS and self._num_slots > 1 and is_all_short:
            _hold(rows > calls, "equal short requests share calls")

    def _clock(self, step: SimulatedStep) -> None:
        _hold(self._ended_at is None or step.began_at >= self._ended_at, "time does not go back between iterations")
        _hold(step.ended_at >= step.began_at, "time does not go back in an iteration")
        self._ended_at = step.ended_at

    def _admissions(self, step: SimulatedStep) -> None:
        was_empty = not self._owner
        for event in step.events:
            if isinstance(event, Admitted):
                _hold(event.sequence_id not in self._owner, "a request is admitted into a free slot")
                _hold(was_empty or self._policy is not MixedPolicy.STATIC, "a group starts when all slots are free")
                self._owner[event.sequence_id] = event.request.request_id
        _hold(len(self._owner) <= self._num_slots, "no more requests are active than there are slots")
        _hold(step.plan.shape.num_running == len(self._owner), "active slots are those that have an owner")

    def _rows(self, step: SimulatedStep) -> None:
        largest = 0
        for row in step.plan.rows:
            request_id = row.request.request_id
            _hold(self._owner.get(row.sequence_id) == request_id, "a row belongs to the owner of its slot")
            counts = self._decoded if isinstance(row, DecodeRow) else self._prefilled
            counts[request_id] = counts.get(request_id, 0) + row.num_rows
            request = self._requests[request_id]
            _hold(self._prefilled.get(request_id, 0) <= request.prompt_tokens, "no prompt is computed twice")
            _hold(self._decoded.get(request_id, 0) <= request.decode_tokens, "nobody gets more tokens than allowed")
            largest = max(largest, row.num_rows)
        calls = step.plan.shape.calls
        if self._policy is MixedPolicy.FIFO:
            _hold(len(calls) == len(step.plan.rows), "no two slots share a call")
        else:
            _hold(not calls, "all slots share one call")
            largest = step.plan.shape.num_rows
        _hold(largest <= self._n_batch, "no call has more rows than n_batch")

    def _completions(self, step: SimulatedStep) -> None:
        for event in step.events:
            if isinstance(event, Finished):
                request_id = event.request.request_id
                request = self._requests[request_id]
                _hold(self._decoded.get(request_id) == request.decode_tokens, "a request ends with its last token")
                _hold(self._prefilled.get(request_id) == request.prompt_tokens, "a request ends with its whole prompt")
                _hold(request_id not in self._completed[-1:], "every request completes once")
                self._completed.append(request_id)
                owned = [slot for slot, owner in self._owner.items() if owner == request_id]
                _hold(len(owned) == 1, "a request owns one slot until its end")
                del self._owner[owned[0]]


def _hold(holds: bool, rule: str) -> None:  # noqa: FBT001 - the condition itself
    if not holds:
        message = f"mixed-decode: broken rule: {rule}"
        raise InvariantViolation(message)
