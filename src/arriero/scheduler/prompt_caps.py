"""PromptCaps: what one step lets prompts take, in rows and in time."""

from arriero.core.plan import Cap
from arriero.scheduler.step_target import Allowance, MeteredStep, StepTarget


class PromptCaps:
    """Caps, while one step is filled; owned by its draft.

    Attributes:
        hit: caps that kept prompt rows out, in the order first met.
        metered: the cap on time; None where there is none.
    """

    __slots__ = ("_left", "_per_sequence", "hit", "metered")

    def __init__(self, per_sequence: int | None, per_step: int, target: StepTarget | None = None) -> None:
        """So many rows of one sequence (None: no bound), so many of all together, and a target for the time."""
        self.hit: list[Cap] = []
        self.metered = None if target is None else MeteredStep(target)
        self._per_sequence = per_sequence
        self._left = per_step

    def allow(self, remaining: int, rows_left: int) -> Allowance:
        """How many of the rows that a prompt could use the caps on rows allow, and the tightest one if it bites.

        Args:
            remaining: rows that the prompt could use.
            rows_left: of the batch.
        """
        limit, cap = rows_left, Cap.BATCH
        if self._left < limit:
            limit, cap = self._left, Cap.PER_STEP
        if self._per_sequence is not None and self._per_sequence < limit:
            limit, cap = self._per_sequence, Cap.PER_SEQUENCE
        return Allowance(remaining) if limit >= remaining else Allowance(limit, cap)

    def note(self, cap: Cap | None) -> None:
        """A cap kept rows out, if there is one."""
        if cap is not None and cap not in self.hit:
            self.hit.append(cap)

    def settle(self, allowance: Allowance) -> None:
        """A prompt takes what it was allowed."""
        self.note(allowance.cap)
        if self.metered is not None:
            self.metered.note(allowance)

    def take(self, num_rows: int) -> None:
        """So many prompt rows were taken."""
        self._left -= num_rows
