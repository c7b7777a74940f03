"""NothingRetained: the verbs of a manager that retains no runs, for those that have other ways or none."""

from collections.abc import Sequence

from arriero.core.ids import SequenceId, TokenId
from arriero.kv.reuse import CachePicture, EvictionCause, RetainedRun, ReuseFigures


class NothingRetained:
    """No run is kept after its request, none is waited for, and the order of ids does not matter."""

    def foreseen(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> int:
        """Nobody waits for a prompt that is being computed."""
        del tokens, scope, limit
        return 0

    def move_down(self, sequence_id: SequenceId) -> SequenceId | None:
        """Every id is as good as another."""
        del sequence_id
        return None

    def clear_retained(self, cause: EvictionCause) -> None:
        """There is none."""

    def save_retained(self) -> tuple[int, int]:
        """There is none."""
        return 0, 0

    def retained(self) -> tuple[RetainedRun, ...]:
        """There is none."""
        return ()

    def reuse_figures(self) -> ReuseFigures | None:
        """None of this kind."""
        return None

    def picture(self) -> CachePicture | None:
        """None of this kind."""
        return None
