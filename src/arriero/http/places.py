"""Places: those that one request has at the door, one for each of its sequences.

take     before any work is done for it, or a refusal at once
weigh    its prompts are tokenised: the bounds on tokens, and whether its deadline can be met
leave    its answer is over
"""

from collections.abc import Callable, Sequence

from arriero.core.errors import (
    DeadlineHopeless,
    Draining,
    EngineDied,
    InvalidRequest,
    KeyLimit,
    QueueFull,
    QueueTimeout,
    Refused,
)
from arriero.core.ids import Time
from arriero.engine.door import Place
from arriero.http.desk import Desk
from arriero.http.order import Ask, Order
from arriero.http.tenants import Tenant


class Places:
    """Taken and given back together; on the event loop."""

    def __init__(self, desk: Desk, order: Order, tenant: Tenant) -> None:
        """Nothing is taken yet."""
        self._desk = desk
        self._order = order
        self._tenant = tenant
        self._taken: list[Place] = []

    def __getitem__(self, index: int) -> Place:
        """That of one sequence."""
        return self._taken[index]

    @property
    def patience_ms(self) -> int | None:
        """How long it may wait for a slot: as long as the server lets anybody, but not beyond its deadline."""
        bounds = (self._desk.service.options.queue_timeout_ms, self._order.urgency.deadline_ms)
        return min((bound for bound in bounds if bound is not None), default=None)

    def take(self, arrival_at: Time, on_late: Callable[[], None]) -> None:
        """Take one for each sequence.

        Args:
            arrival_at: from when on it waits, on the engine's clock.
            on_late: called once if the first of them has waited for long enough; the others wait for the first.

        Raises:
            InvalidRequest: it has more sequences than can ever be in flight.
            QueueFull, KeyLimit: a bound is reached. Draining: no new work is taken.
            What was taken is still to be given back.
        """
        engine, patience_ms = self._desk.service.engine, self.patience_ms
        self._check_number()
        start_by = None if patience_ms is None else arrival_at + patience_ms * 1000
        try:
            self._taken.append(engine.enter(self._tenant.scope, start_by=start_by))
            for _ in range(1, self._order.num_sequences):
                self._taken.append(engine.enter(self._tenant.scope))
        except (QueueFull, KeyLimit) as error:
            raise self._told(error) from None
        except EngineDied as error:
            raise Draining(str(error)) from error
        if start_by is not None:
            self._taken[0].on_late = on_late
            self._desk.doorkeeper.watch()

    def weigh(self, asks: Sequence[Ask], arrival_at: Time) -> None:
        """Count the tokens of its prompts.

        Raises:
            DeadlineHopeless: it would be late. QueueFull, KeyLimit: a bound on tokens is reached.
            InvalidRequest: its prompts together have more tokens than may ever wait.
        """
        deadline_ms = self._order.urgency.deadline_ms
        deadline_at = None
        if deadline_ms is not None:
            deadline_at = arrival_at + deadline_ms * 1000
            for ask in asks:
                self._check_deadline(ask, arrival_at, deadline_ms)
        has_queue = self._desk.service.engine.has_queue
        try:
            for place, ask in zip(self._taken, asks, strict=True):
                place.weigh(len(ask.prompt), deadline_at=deadline_at, has_queue=has_queue)
        except (QueueFull, KeyLimit) as error:
            self._check_tokens(asks)
            raise self._told(error) from None

    def too_late(self) -> Refused:
        """What it is told when it has waited for long enough."""
        deadline_ms = self._order.urgency.deadline_ms
        retry_after_s = self._desk.outlook.retry_after_s()
        if deadline_ms is not None and deadline_ms == self.patience_ms:
            message = (
                f"no slot was free within the {deadline_ms} ms after which its answer was wanted; "
                f"allow more time, or try again later"
            )
            return DeadlineHopeless(message, retry_after_s=retry_after_s)
        waited_s = (self.patience_ms or 0) / 1000
        message = f"no slot was free within {waited_s:g} s, as long as requests may wait here; try again later"
        return QueueTimeout(message, retry_after_s=retry_after_s)

    def leave(self) -> None:
        """Give all back."""
        for place in self._taken:
            place.leave()

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_number(self) -> None:
        limits, wanted = self._desk.service.engine.places.limits, self._order.num_sequences
        bounds = (limits.in_flight, None if self._tenant.scope is None else limits.tenant_requests)
        most = min((bound for bound in bounds if bound is not None), default=wanted)
        if wanted > most:
            message = f"{wanted} prompts in one request; this server takes at most {most} at a time"
            raise InvalidRequest(message, field="prompt")

    def _check_tokens(self, asks: Sequence[Ask]) -> None:
        """Whether several prompts could be let in together at any time at all."""
        limits, wanted = self._desk.service.engine.places.limits, sum(len(ask.prompt) for ask in asks)
        bounds = (limits.waiting_tokens, None if self._tenant.scope is None else limits.tenant_tokens)
        most = min((bound for bound in bounds if bound is not None), default=wanted)
        if len(asks) > 1 and wanted > most:
            message = f"{wanted} tokens in the prompts of one request; this server takes at most {most} together"
            raise InvalidRequest(message, field="prompt")

    def _check_deadline(self, ask: Ask, arrival_at: Time, deadline_ms: int) -> None:
        self._desk.outlook.check_deadline(
            len(ask.prompt),
            ask.max_tokens,
            arrival_at=arrival_at,
            deadline_ms=deadline_ms,
            num_own=len(self._taken),
        )

    def _told(self, error: Refused) -> Refused:
        """The same error with the time to try again."""
        error.retry_after_s = self._desk.outlook.retry_after_s()
        return error
