"""Origins: what a new sequence starts from, and how it gets there.

    chosen id                 what was found       ordered
    free                      on another id        Copy
    free                      in the host store    Restore
    a run lies there          on another id        Save and Drop of it, Copy
    the run that was found    there                Save of it and Trim, where the prompt goes another way
    free                      what it had before   Restore of what was swapped out when it was preempted

Memory may refuse each of these. The run is then given up, so that the request, which starts again, finds it no more.
"""

from typing import NamedTuple

from arriero.core.events import (
    AdmissionSource,
    CopySequence,
    KvOp,
    PrefixSource,
    RestoreSequence,
    ReuseVerdict,
    TrimSequence,
)
from arriero.core.ids import RequestId, SavedKey, SequenceId
from arriero.kv.books import Books
from arriero.kv.id_choice import IdChoice, Place
from arriero.kv.lookups import RunHit
from arriero.kv.protocol import PrefixHit
from arriero.kv.retained import RetainedRuns
from arriero.kv.reuse import EvictionCause
from arriero.kv.reuse_counts import Use
from arriero.kv.runs import Run
from arriero.prefix.cache import RunKey


class Origin(NamedTuple):
    """What a new sequence starts from.

    Attributes:
        num_tokens: how many tokens it has without computing them.
        num_cells: cells of the pool that they cost.
        run: where they are, or None.
        key: where they are in the host store, or None.
        is_own: whether they are the request's own, from before it was preempted, and no run.
    """

    num_tokens: int
    num_cells: int
    run: Run | None
    key: SavedKey | None
    is_own: bool = False

    @property
    def num_cached(self) -> int:
        """Tokens that come from a run."""
        return 0 if self.is_own else self.num_tokens

    @property
    def num_swapped_in(self) -> int:
        """Tokens that come from what was swapped out."""
        return self.num_tokens if self.is_own else 0


FROM_NOTHING = Origin(0, 0, None, None)


class Begun(NamedTuple):
    """How a new sequence was had."""

    source: AdmissionSource
    prefix: PrefixSource | None


class Origins:
    """Starts sequences; what sharing costs is O(segments), what a request that shares nothing costs is O(1)."""

    def __init__(self, books: Books, retained: RetainedRuns, choice: IdChoice) -> None:
        """`choice` says on which ids requests start."""
        self._books = books
        self._retained = retained
        self._choice = choice
        self._uses: dict[SequenceId, Use] = {}  # by the last request on each id

    def find(self, request_id: RequestId, hit: PrefixHit) -> Origin:
        """What a request had before it was preempted, unless what is still there of a hit gives as much."""
        found, own = self._find(hit), self._books.swapped.of(request_id)
        if own is None or own.length <= found.num_tokens:
            return found
        return Origin(own.length, own.length, None, own.key, is_own=True)

    def _find(self, hit: PrefixHit) -> Origin:
        if not isinstance(hit, RunHit) or not hit.num_tokens:
            return FROM_NOTHING
        books, length = self._books, hit.num_tokens
        if hit.is_saved:
            # Memory brings a saved run back whole, and trims it then.
            keys = (SavedKey(run) for run in hit.runs if SavedKey(run) in books.host)
            key = next((key for key in keys if books.ledger.missing(books.host.length(key)) <= 0), None)
            return FROM_NOTHING if key is None else Origin(length, length, None, key)
        run = books.runs.origin(hit)
        if run is None:
            return FROM_NOTHING
        return Origin(length, books.ledger.wakes(run.sequence_id, length), run, None)

    def missing(self, origin: Origin, num_tokens: int) -> int:
        """How many cells too few there are for so many tokens, if every retained run goes; not above 0 if enough."""
        return self._books.ledger.missing(num_tokens - origin.num_tokens + origin.num_cells)

    def choose(self, origin: Origin, hit: PrefixHit) -> Place | None:
        """On which id the sequence starts; None if there is none."""
        return self._choice.choose(origin.run, hit if isinstance(hit, RunHit) else None)

    def begin(self, place: Place, origin: Origin, hit: PrefixHit, num_tokens: int) -> Begun:
        """Let a sequence run that holds what it starts from, and order what memory has to do for it.

        Room for `num_tokens` is made after it, so that what it starts from may go, but not before it was used.
        """
        counts = self._books.counts
        counts.looked_up(hit.verdict if origin.num_cached == hit.num_tokens else ReuseVerdict.NO_MATCH)
        use, source = None, AdmissionSource.COMPLETION_FREED
        if place.resident is not None and place.in_place:
            use = self._go_on(place.resident, origin.num_tokens)
            source = use.source
        else:
            source = self._clear(place, None if origin.is_own else origin.key)
            use = self._bring(place.sequence_id, origin, source, num_tokens)
        if use is None:
            self._uses.pop(place.sequence_id, None)
        else:
            self._uses[place.sequence_id] = use
            counts.used(use)
        self._retained.make_room(num_tokens - origin.num_tokens)
        self._books.ledger.grow(place.sequence_id, num_tokens - origin.num_tokens)
        return Begun(source, None if use is None else use.prefix)

    def refuse(self, op: KvOp) -> None:
        """Memory did not do what one of these was started with: give up what it came from."""
        sequence_id = _filled_by(op)
        use = None if sequence_id is None else self._uses.get(sequence_id)
        if sequence_id is None or use is None or use.op != op:
            return
        del self._uses[sequence_id]
        self._books.counts.used(use, -1)
        self._books.counts.was_refused()
        if isinstance(op, RestoreSequence):
            self._books.host.forget(op.key, EvictionCause.REFUSED)
            return
        run = self._books.runs.of(use.run)
        if run is not None and run.is_retained:
            self._retained.give_up(run, EvictionCause.REFUSED)
        elif run is not None:
            # It goes on by itself, but nobody may start from it any more: its request ends without leaving a run.
            self._books.runs.hide(run)
            run.is_withdrawn = True

    def _clear(self, place: Place, leased: SavedKey | None) -> AdmissionSource:
        """Have the id that was chosen; what the request starts from stays in the host store meanwhile."""
        if place.resident is None:
            return self._books.ids.claim(place.sequence_id)
        self._books.host.lease(leased)
        self._retained.vacate(place.resident, EvictionCause.DEMAND)
        self._books.host.lease(None)
        return AdmissionSource.EVICTED_RECLAIM

    def _go_on(self, run: Run, length: int) -> Use:
        """Start in the place of a run."""
        books = self._books
        num_trimmed = books.runs.length(run) - length
        op = TrimSequence(run.sequence_id, length) if num_trimmed else None
        self._retained.take_over(run, length)
        if op is not None:
            books.ops.append(op)
        source = AdmissionSource.COMPLETION_FREED
        if books.per_session:
            source = AdmissionSource.SESSION_REUSE_LCP if num_trimmed else AdmissionSource.SESSION_REUSE
        return Use(
            op=op,
            run=run.key,
            prefix=PrefixSource.SESSION if books.per_session else PrefixSource.TREE,
            num_tokens=length,
            num_trimmed=num_trimmed,
            source=source,
        )

    def _bring(self, sequence_id: SequenceId, origin: Origin, source: AdmissionSource, num_tokens: int) -> Use | None:
        """Fill an empty sequence; what its own request had before was found by nobody, so it is no use of a run."""
        books, length = self._books, origin.num_tokens
        if origin.run is not None:
            copy = CopySequence(origin.run.sequence_id, sequence_id, length)
            prefix = PrefixSource.TREE if origin.run.is_retained else PrefixSource.RUNNING
            self._retained.use(origin.run)
            books.ledger.share(copy.source, sequence_id, length)
            books.ops.append(copy)
            return Use(op=copy, run=origin.run.key, prefix=prefix, num_tokens=length, num_trimmed=0, source=source)
        if origin.key is None:
            books.ledger.begin(sequence_id)
            return None
        restore = RestoreSequence(sequence_id, origin.key, length)
        if origin.is_own:
            self._fill(restore, num_tokens)
            return None
        prefix = books.host.use(restore.key, self._retained.now)
        books.host.lease(restore.key)
        self._fill(restore, max(num_tokens, books.host.length(restore.key)))
        books.host.lease(None)
        key = RunKey(restore.key)
        return Use(op=restore, run=key, prefix=prefix, num_tokens=length, num_trimmed=0, source=source)

    def _fill(self, op: RestoreSequence, num_cells: int) -> None:
        """Bring an empty sequence back from the host store, with so many cells free for it before."""
        books = self._books
        self._retained.make_room(num_cells)  # whose runs may be saved
        books.ledger.begin(op.sequence_id)
        books.ledger.grow(op.sequence_id, op.length)
        books.ops.append(op)


def _filled_by(op: KvOp) -> SequenceId | None:
    """The sequence that an operation of a start fills."""
    match op:
        case CopySequence() | RestoreSequence() | TrimSequence():
            return op.sequence_id
        case _:
            return None
