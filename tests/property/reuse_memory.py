"""A memory that knows where each position came from, and does what the operations of a scheduler say.

It has no books beyond its lists, so that whatever a scheduler gets wrong shows: a copy from the wrong sequence, a trim
too many, a run of another scope, a decoded token where only prefilled ones may be reused.
"""

from dataclasses import dataclass, field

from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.plan import BatchPlan, DecodeRow
from arriero.core.request import Request


@dataclass(eq=False)
class Cell:
    """One computed position; sequences of one pool share the object."""

    token: int
    scope: str | None
    epoch: int  # whose row computed it
    is_decoded: bool

    def again(self) -> "Cell":
        """The same in another place."""
        return Cell(self.token, self.scope, self.epoch, self.is_decoded)


@dataclass
class TokenMemory:
    """Sequences and a host store.

    Attributes:
        unified: whether a copy shares cells.
        private: keys of saved sequences that nobody may find.
        counts: operations that were done.
    """

    unified: bool
    held: dict[int, list[Cell]] = field(default_factory=dict[int, list[Cell]])
    saved: dict[int, list[Cell]] = field(default_factory=dict[int, list[Cell]])
    private: set[int] = field(default_factory=set[int])
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def of(self, sequence_id: int) -> list[Cell]:
        """What a sequence holds."""
        return self.held.setdefault(sequence_id, [])

    def apply(self, op: KvOp) -> None:
        """Do it; whatever cannot be done is a mistake of the books."""
        name = type(op).__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        match op:
            case DropSequence(sequence_id):
                self.of(sequence_id).clear()
            case TrimSequence(sequence_id, length):
                assert length <= len(self.of(sequence_id)), f"{op} of {len(self.of(sequence_id))} positions"
                del self.of(sequence_id)[length:]
            case CopySequence(source, sequence_id, length):
                self._fill(op, sequence_id, self.of(source), length, shared=self.unified)
            case MoveSequence(source, sequence_id):
                self._fill(op, sequence_id, self.of(source), len(self.of(source)), shared=True)
                self.of(source).clear()
            case SaveSequence(sequence_id, key, length):
                assert key not in self.saved, f"{op}: the key is in use"
                assert 0 < length <= len(self.of(sequence_id)), f"{op} of {len(self.of(sequence_id))} positions"
                assert not op.tokens or op.tokens == tuple(cell.token for cell in self.of(sequence_id)[:length]), op
                assert op.tokens or length == len(self.of(sequence_id)), f"{op}: a part is swapped out"
                self.saved[key] = [cell.again() for cell in self.of(sequence_id)[:length]]
                self.private |= set() if op.tokens else {key}
            case RestoreSequence(sequence_id, key, length):
                assert key in self.saved, f"{op}: nothing is saved there"
                self._fill(op, sequence_id, self.saved[key], length, shared=False)
            case ForgetSaved(key):
                self.saved.pop(key, None)
                self.private.discard(key)

    def compute(self, plan: BatchPlan, spared: set[int | None]) -> None:
        """The rows of a step, without those of some sequences."""
        for row in plan.rows:
            if row.sequence_id not in spared:
                request, is_decoded = row.request, isinstance(row, DecodeRow)
                cells = self.of(row.sequence_id)
                assert row.start == len(cells), f"{row} on {len(cells)} positions"
                first_answer = len(request.prompt)
                cells += [
                    Cell(token, request.cache_scope, request.epoch, is_decoded or position >= first_answer)
                    for position, token in enumerate(row.tokens, start=row.start)
                ]

    def check_start(
        self, sequence_id: int, request: Request, known: tuple[int, ...], *, keeps_answers: bool, is_own: bool
    ) -> None:
        """What a request starts from is the beginning of what it knows, and may be seen by it, or was its own."""
        cells = self.of(sequence_id)
        assert [cell.token for cell in cells] == list(known[: len(cells)]), "it starts from another text"
        for cell in cells:
            if is_own:
                assert cell.scope == request.cache_scope, "it got somebody else's"
                continue
            assert cell.scope == request.cache_scope is not None, "a prefix crossed a cache scope"
            assert keeps_answers or not cell.is_decoded, "a decoded position was reused"

    def num_cells(self, lost: set[int]) -> int:
        """Cells in use, shared ones once, without those of some sequences."""
        return len({id(cell) for each, cells in self.held.items() if each not in lost for cell in cells})

    def _fill(self, op: KvOp, sequence_id: int, source: list[Cell], length: int, *, shared: bool) -> None:
        target = self.of(sequence_id)
        assert not target, f"{op}: the target holds {len(target)} positions"
        assert 0 < length <= len(source), f"{op} of {len(source)} positions"
        target += source[:length] if shared else [cell.again() for cell in source[:length]]
