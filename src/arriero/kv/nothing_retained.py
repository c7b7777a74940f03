"""NothingRetained: the verbs of a manager that retains no runs, for those that have other ways or none."""

from collections.abc import Sequence
from typing import Final

from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.kv.protocol import PrefixHit
from arriero.kv.reuse import CachePicture, EvictionCause, RetainedRun, ReuseFigures


class NothingSwapped:
    """What preempted requests have computed is always lost."""

    def save(self, request_id: RequestId, sequence_id: SequenceId, length: int) -> bool:
        """There is no place."""
        del request_id, sequence_id, length
        return False

    def length(self, request_id: RequestId) -> int:
        """Nothing is kept."""
        del request_id
        return 0

    def forget(self, request_id: RequestId) -> None:
        """Nothing is kept."""


_NOTHING_SWAPPED: Final = NothingSwapped()


class NothingRetained:
    """No run is kept after its request, none is waited for, and the order of ids does not matter."""

    @property
    def swaps(self) -> NothingSwapped:
        """Nowhere."""
        return _NOTHING_SWAPPED

    def held_elsewhere(self, sequence_id: SequenceId) -> int:
        """Nobody asks, as nothing is ever swapped."""
        del sequence_id
        return 0

    def has_room(self, request_id: RequestId, num_tokens: int, hit: PrefixHit, without: SequenceId | None) -> bool:
        """Nobody is displaced."""
        del request_id, num_tokens, hit, without
        return False

    def foreseen(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> int:
        """Nobody waits for a prompt that is being computed."""
        del tokens, scope, limit
        return 0

    def leader(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> None:
        """Nobody leads."""
        del tokens, scope, limit

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
