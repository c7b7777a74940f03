"""ExplainBook: an observer that can say where the time of a request went, while it is alive and for a while after.

On the engine's thread a step is mostly put aside only; some are told together, when their code is warm. What has ended
is kept for the last so many requests, and of each a bounded amount, so a server may run for weeks.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from arriero.core.events import Finished
from arriero.core.ids import Time
from arriero.costmodel.calibrated import CalibratedCost
from arriero.engine.handle import Result
from arriero.engine.observer import EngineSummary, StepRecord
from arriero.metrics.explain import Explainer
from arriero.metrics.explain_events import StepMoments, follow_pass, tell_event
from arriero.metrics.explain_parts import Explanation
from arriero.metrics.explain_shares import Shares
from arriero.record.explain_cost import calibrated_time

KEPT: Final = 1_000
"""Requests that are kept after their end."""

TOGETHER: Final = 64
"""Steps that are put aside before they are told."""


class ExplainBook:
    """Observer of one engine; asked from any thread."""

    def __init__(
        self,
        cost: CalibratedCost | None = None,
        *,
        kept: int = KEPT,
        tell: Callable[[Explanation], None] | None = None,
    ) -> None:
        """Start empty.

        Args:
            cost: divides steps among their rows; None: in proportion to rows.
            kept: requests that are kept after their end.
            tell: gets each of these at its end, on whichever thread; must be quick.
        """
        self._explainer = Explainer(self._keep, Shares(None if cost is None else calibrated_time(cost)))
        self._records: deque[StepRecord] = deque()
        self._ended: dict[int, Explanation] = {}  # in the order of their ends
        self._kept = kept
        self._tell = tell
        self._lock = threading.Lock()

    # ── from the engine's thread ────────────────────────────────────────────────────────────────────────────────────

    def on_start(self, at: Time) -> None:
        """Nothing: the first step says when it began."""

    def on_step(self, record: StepRecord) -> None:
        """Put a step aside; they are told together, and before the engine sleeps."""
        self._records.append(record)
        if not record.plan.rows or len(self._records) >= TOGETHER:
            self._settle()

    def on_end(self, result: Result) -> None:
        """Nothing: ends are among the events of their step."""

    def on_close(self, summary: EngineSummary) -> None:
        """Whoever is alive did not finish; a step that crashed is not known."""
        self._settle()
        with self._lock:
            if summary.crashed is None:
                tell_rest(self._explainer, summary)
            self._explainer.cut()

    # ── from any thread ─────────────────────────────────────────────────────────────────────────────────────────────

    def find(self, request_id: int) -> Explanation | None:
        """The story of a request, up to the last boundary if it is alive; None: not alive, and not ended lately."""
        self._settle()
        with self._lock:
            return self._explainer.find(request_id) or self._ended.get(request_id)

    @property
    def num_kept(self) -> int:
        """Requests that are kept after their end."""
        self._settle()
        return len(self._ended)

    # ── helpers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _settle(self) -> None:
        with self._lock:
            while self._records:
                tell_step(self._explainer, self._records.popleft())

    def _keep(self, explanation: Explanation) -> None:
        """Keep what has ended; an id that lived before takes the new place."""
        self._ended.pop(explanation.request_id, None)
        self._ended[explanation.request_id] = explanation
        if len(self._ended) > self._kept:
            del self._ended[next(iter(self._ended))]
        if self._tell is not None:
            self._tell(explanation)


def tell_step(explainer: Explainer, record: StepRecord) -> None:
    """Tell one pass of the actor."""
    ended_at = record.began_at if record.committed_at is None else record.committed_at
    moments = StepMoments(int(record.began_at), int(ended_at), record.decode_us)
    follow_pass(explainer, record.plan, record.outcome, record.events, moments)


def tell_rest(explainer: Explainer, summary: EngineSummary) -> None:
    """Tell what happened after the last step: who still waited was given up."""
    for event in summary.events:
        if isinstance(event, Finished):
            explainer.idle(int(event.at))
        tell_event(explainer, event)
