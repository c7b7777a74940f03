"""Displacement: who gives its place to a request that waits and ranks before it.

    running, by rank   1  3  8  9        waiting, by rank   5  7
    9 yields to 5; it waits behind 7, keeps its tokens and its rank, and goes on when there is a place for it

Ranks never change, so nobody who was displaced ranks before its successor, and a slot never goes back and forth: those
who run only come to rank better by it.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from arriero.core.request import RequestState
from arriero.kv.protocol import NO_HIT, KvManager, PrefixHit
from arriero.scheduler.progress import Progress

_rank: Final = attrgetter("rank")


def last_behind(head: Progress, running: Sequence[Progress]) -> Progress | None:
    """The one of those who run that ranks last, if it ranks behind `head`."""
    last = max(running, key=_rank, default=None)
    return None if last is None or last.rank < head.rank else last


def finds_place(head: Progress, hit: PrefixHit, kv: KvManager, ahead: int) -> bool:
    """Whether there are a sequence id and cells for it as things are; `ahead` more cells must stay."""
    usage = kv.usage()
    has_id = usage.sequences_free + usage.sequences_retained > 0
    return has_id and kv.has_room(head.request.request_id, head.num_known + ahead, hit, None)


def would_find_place(head: Progress, victim: Progress, kv: KvManager, ahead: int) -> bool:
    """Whether there would be, were the victim gone.

    What the head could share is left out, as the victim may be the one who has it.
    """
    return kv.has_room(head.request.request_id, head.num_known + ahead, NO_HIT, victim.held_sequence)


def cells_ahead(running: Iterable[Progress], headroom_per_sequence: int) -> int:
    """Cells that must stay for those who run: headroom, and the next token of each that decodes."""
    return sum(headroom_per_sequence + (each.state is RequestState.DECODING) for each in running)
