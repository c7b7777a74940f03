"""SharedCells: the books of the unified layout, where sequences that begin alike may hold the same cells.

    sequence 0   [ 0 ... 899 ][ 900 ... 939 ]|- 60 of its own -      sharing starts at position 0 and nowhere else,
    sequence 1   [ 0 ... 899 ][ 900 ... 939 ]                        so the holders of a segment also hold
    sequence 2   [ 0 ... 899 ]|- 12 of its own -                     every segment before it

A segment is a stretch of positions with the sequences that hold its cells. What only one sequence holds at its end is
no segment but a number, so a decoding sequence grows by an addition, and traffic that shares nothing has no segments.
"""

from collections.abc import Sequence

from arriero.core.ids import SequenceId
from arriero.kv.ledger import OwnStreams, require


class _Segment:
    """Consecutive cells with the same holders."""

    __slots__ = ("holders", "length", "num_running")

    def __init__(self, length: int, holders: set[SequenceId], num_running: int) -> None:
        self.length = length
        self.holders = holders
        self.num_running = num_running


class SharedCells(OwnStreams):
    """One pool; verbs that share or end sharing are O(segments of a sequence x their holders), all others O(1)."""

    def __init__(self, num_cells: int) -> None:
        """Start with all cells free."""
        super().__init__()
        self._num_cells = num_cells
        self._segments: dict[SequenceId, list[_Segment]] = {}
        self._num_spared = 0  # cells that running sequences would need more if they shared none
        self._num_shared = 0

    @property
    def active_cells(self) -> int:
        """Each once, however many running sequences hold it."""
        return self.held_tokens - self._num_spared

    @property
    def shared_cells(self) -> int:
        """Those in segments with several holders."""
        return self._num_shared

    def missing(self, more: int) -> int:
        """Retained cells may be had."""
        return more - (self._num_cells - self.held_tokens + self._num_spared)

    def lack(self, more: int) -> int:
        """Free cells only."""
        return more - (self._num_cells - self.held_tokens + self._num_spared - self.retained_cells)

    def wakes(self, source: SequenceId, length: int) -> int:
        """Those that no running sequence holds yet."""
        num_cells = at = 0
        for segment in self._segments.get(source, ()):
            taken = min(segment.length, length - at)
            if taken <= 0:
                return num_cells
            at += taken
            num_cells += 0 if segment.num_running else taken
        return num_cells + (length - at if source in self._retained else 0)

    def freed_by(self, sequence_id: SequenceId) -> int:
        """Those of its own, at its end."""
        others = (segment.length for segment in self._segments.get(sequence_id, ()) if len(segment.holders) > 1)
        return self.lengths[sequence_id] - sum(others)

    def share(self, source: SequenceId, sequence_id: SequenceId, length: int) -> None:
        """Hold the same cells."""
        segments = self._cut(source, length)
        for segment in segments:
            if len(segment.holders) == 1:
                self._num_shared += segment.length
            self._wake(segment)
            segment.holders.add(sequence_id)
        self._segments[sequence_id] = segments
        self.lengths[sequence_id] = length
        self.held_tokens += length
        self.largest = max(self.largest, length)

    def grow_each(self, sequence_ids: Sequence[SequenceId], limit: int) -> bool:
        """One more cell of the pool for each."""
        free = self._num_cells - self.held_tokens + self._num_spared - self.retained_cells
        return len(sequence_ids) <= free and super().grow_each(sequence_ids, limit)

    def steps_ahead(self, sequence_ids: Sequence[SequenceId], limit: int) -> int:
        """As long as the nearest limit and free cells allow."""
        steps = super().steps_ahead(sequence_ids, limit)
        return min(steps, -self.lack(0) // len(sequence_ids)) if sequence_ids else steps

    def trim(self, sequence_id: SequenceId, length: int) -> None:
        """Give back what nobody else holds."""
        own = self._segments.get(sequence_id)
        if own and length < sum(segment.length for segment in own):
            num_kept = len(self._cut(sequence_id, length))
            gone = own[num_kept:]
            del own[num_kept:]
            for segment in gone:
                self._leave(segment, sequence_id)
            last = next((segment for segment in reversed(gone) if segment.holders), None)
            if last is not None:
                # Whoever is left there may hold it, and what comes after it, alone now.
                self._join(next(iter(last.holders)))
        super().trim(sequence_id, length)

    def retain(self, sequence_id: SequenceId) -> None:
        """Count what no running sequence holds any more as retained."""
        super().retain(sequence_id)
        for segment in self._segments.get(sequence_id, ()):
            segment.num_running -= 1
            if segment.num_running:
                self.retained_cells -= segment.length
                self._num_spared -= segment.length

    def resume(self, sequence_id: SequenceId) -> None:
        """Count what no running sequence held as active."""
        for segment in self._segments.get(sequence_id, ()):
            if segment.num_running:
                # The base class is about to move it from the retained cells to the active ones, where it is already.
                self.retained_cells += segment.length
                self._num_spared += segment.length
            segment.num_running += 1
        super().resume(sequence_id)

    def drop(self, sequence_id: SequenceId) -> None:
        """Give back what nobody else holds, and be gone."""
        super().drop(sequence_id)
        self._segments.pop(sequence_id, None)

    def move(self, source: SequenceId, sequence_id: SequenceId) -> None:
        """Hold the cells of another one instead of it."""
        super().move(source, sequence_id)
        own = self._segments.pop(source, None)
        if own is not None:
            self._segments[sequence_id] = own
            for segment in own:
                segment.holders.remove(source)
                segment.holders.add(sequence_id)

    def check(self) -> None:
        """Count again, cell by segment."""
        segments = {id(segment): segment for own in self._segments.values() for segment in own}.values()
        holders = {id(segment): set[SequenceId]() for segment in segments}
        for sequence_id, own in self._segments.items():
            for segment in own:
                holders[id(segment)].add(sequence_id)
        private = {each: held - self._num_in_segments(each) for each, held in self.lengths.items()}
        running = {each: len(each_holders - self._retained) for each, each_holders in holders.items()}
        active = sum(segment.length for segment in segments if running[id(segment)])
        active += sum(cells for each, cells in private.items() if each not in self._retained)
        retained = sum(segment.length for segment in segments if not running[id(segment)])
        retained += sum(cells for each, cells in private.items() if each in self._retained)
        held = sum(cells for each, cells in self.lengths.items() if each not in self._retained)
        rules = (
            (self._segments.keys() <= self.lengths.keys(), "a sequence that is not held holds segments"),
            (all(cells >= 0 for cells in private.values()), "a sequence has more in segments than it holds"),
            (all(segment.holders == holders[id(segment)] for segment in segments), "holders of a segment differ"),
            (all(segment.num_running == running[id(segment)] for segment in segments), "running holders differ"),
            (all(segment.length > 0 for segment in segments), "a segment is empty"),
            (held == self.held_tokens, "held cells do not add up"),
            (active == self.active_cells, "active cells do not add up"),
            (retained == self.retained_cells, "retained cells do not add up"),
            (
                sum(segment.length for segment in segments if len(segment.holders) > 1) == self._num_shared,
                "shared cells do not add up",
            ),
            (active + retained <= self._num_cells, "more cells held than there are"),
        )
        require(rules, f"held {self.lengths}, active {self.active_cells}, retained {self.retained_cells}")

    def _num_in_segments(self, sequence_id: SequenceId) -> int:
        return sum(segment.length for segment in self._segments.get(sequence_id, ()))

    def _wake(self, segment: _Segment) -> None:
        """One running sequence more will hold it, which is about to count its cells as held."""
        if segment.num_running:
            self._num_spared += segment.length
        else:
            self.retained_cells -= segment.length
        segment.num_running += 1

    def _leave(self, segment: _Segment, sequence_id: SequenceId) -> None:
        """One holder less; afterwards `trim` takes its cells from what the sequence holds."""
        segment.holders.remove(sequence_id)
        if len(segment.holders) == 1:
            self._num_shared -= segment.length
        if sequence_id in self._retained:
            if segment.holders:
                # Others go on to hold it, while `trim` counts it as given back.
                self.retained_cells += segment.length
            return
        segment.num_running -= 1
        if segment.num_running:
            self._num_spared -= segment.length
        elif segment.holders:
            self.retained_cells += segment.length

    def _cut(self, source: SequenceId, length: int) -> list[_Segment]:
        """The segments that make up exactly the first `length` positions, cut and made where there are none."""
        own = self._segments.setdefault(source, [])
        at = 0
        for index, segment in enumerate(own):
            if at == length:
                return own[:index]
            if at + segment.length > length:
                self._split(segment, length - at)
                return own[: index + 1]
            at += segment.length
        if at < length:
            own.append(_Segment(length - at, {source}, 0 if source in self._retained else 1))
        return own.copy()

    def _split(self, segment: _Segment, length: int) -> None:
        rest = _Segment(segment.length - length, segment.holders.copy(), segment.num_running)
        segment.length = length
        for holder in segment.holders:
            own = self._segments[holder]
            own.insert(own.index(segment) + 1, rest)

    def _join(self, holder: SequenceId) -> None:
        """Undo cuts that nobody needs any more, along the cells of one sequence."""
        own = self._segments[holder]
        for index in range(len(own) - 1, 0, -1):
            before, segment = own[index - 1], own[index]
            if len(before.holders) == len(segment.holders):
                # The holders of a segment also hold the one before it: as many are the same ones.
                before.length += segment.length
                for each in segment.holders:
                    self._segments[each].remove(segment)
        if own and len(own[-1].holders) == 1:
            own.pop()
