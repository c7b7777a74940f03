"""Room: what a step that is being filled asks of its scheduler."""

from collections.abc import Container, Sequence
from typing import Protocol

from arriero.core.ids import SequenceId
from arriero.core.plan import Deferral, PrefillChunk
from arriero.kv.protocol import PrefixHit
from arriero.scheduler.progress import Progress


class Room(Protocol):
    """What the draft asks of its scheduler: places in KV memory, at the expense of others if need be."""

    def lookup(self, progress: Progress) -> PrefixHit:
        """How much of a waiting request's prompt is in memory already; changes nothing."""
        ...

    def foreseen(self, progress: Progress) -> int:
        """How much of it will be, once the prompts that are being computed now are; changes nothing."""
        ...

    def lend(self, progress: Progress) -> None:
        """A waiting request waits for a prefix that is being computed: who does that goes as early as it would."""
        ...

    def closed_to_all(self) -> Deferral | None:
        """Why nobody can start any more in this step, whoever it is; None if somebody may."""
        ...

    def overtake(self, progress: Progress, hit: PrefixHit) -> Deferral | None:
        """As `admit`, of a request before which another one waits."""
        ...

    def cells_in_use(self) -> int:
        """Cells with KV in them, of whomever, and those that decode rows of this step have been given."""
        ...

    def admit(self, progress: Progress, hit: PrefixHit | None = None) -> Deferral | None:
        """Give a waiting request a slot with places for all its known tokens, or say why not and change nothing.

        `hit` is what `lookup` has just said; None looks it up.
        """
        ...

    def promise(self, row: PrefillChunk) -> None:
        """The step has taken a stretch of a prompt."""
        ...

    def extend_each(self, sequence_ids: Sequence[SequenceId]) -> bool:
        """One more place for each of several running requests in turn, if nobody has to yield; else no change."""
        ...

    def extend(self, progress: Progress, taken: Container[SequenceId]) -> Deferral | None:
        """One more place for a running request, or why there is none.

        May preempt others whose sequence is not in `taken`, or the request itself, which has then yielded.
        """
        ...
