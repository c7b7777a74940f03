"""SyntheticMemory under any sequence of operations, against token lists and, in one pool, sets of numbered cells."""

from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from arriero.backend.protocol import KvExhausted
from arriero.backend.synthetic import SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticMemory, SyntheticStore
from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    MoveSequence,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import RequestId, SavedKey, SequenceId
from arriero.core.plan import PrefillChunk
from arriero.core.request import Request
from tests.property.machines import machine_settings

NUM_SEQUENCES = 4
IDS = st.integers(0, NUM_SEQUENCES - 1).map(SequenceId)
KEYS = st.integers(1, 5).map(SavedKey)
LENGTHS = st.integers(0, 12)


class MemoryMachine(RuleBasedStateMachine):
    """A position is (token, number of its cell)."""

    @initialize(unified=st.booleans(), num_cells=st.integers(20, 60))
    def build(self, unified: bool, num_cells: int) -> None:  # noqa: FBT001 - hypothesis passes by name
        options = SyntheticOptions(num_sequences=NUM_SEQUENCES, num_rows=16, num_cells=num_cells, unified=unified)
        self.limits = options.limits()
        self.memory = SyntheticMemory(self.limits, SyntheticStore())
        self.held: list[list[tuple[int, int]]] = [[] for _ in range(NUM_SEQUENCES)]
        self.saved: dict[SavedKey, list[int]] = {}
        self.cells = count()

    def new(self, tokens: list[int]) -> list[tuple[int, int]]:
        return [(token, next(self.cells)) for token in tokens]

    @property
    def num_used(self) -> int:
        return len({cell for held in self.held for cell in held})

    @rule(sequence_id=IDS, tokens=st.lists(st.integers(0, 3), min_size=1, max_size=8))
    def compute(self, sequence_id: SequenceId, tokens: list[int]) -> None:
        held = self.held[sequence_id]
        prompt = [*(token for token, _ in held), *tokens]
        request = Request(request_id=RequestId(1), prompt=prompt, max_tokens=1, arrival_at=0)
        fits = len(prompt) <= self.limits.sequence_limit and self.num_used + len(tokens) <= self.limits.num_cells
        try:
            self.memory.store([PrefillChunk(request, sequence_id, len(held), tokens, wants_logits=False)])
        except KvExhausted:
            assert not fits
        else:
            assert fits
            held += self.new(tokens)

    @rule(sequence_id=IDS, length=LENGTHS)
    def trim(self, sequence_id: SequenceId, length: int) -> None:
        assert self.memory.apply(TrimSequence(sequence_id, length) if length else DropSequence(sequence_id))
        del self.held[sequence_id][length:]

    @rule(source=IDS, taker=IDS, length=LENGTHS)
    def copy(self, source: SequenceId, taker: SequenceId, length: int) -> None:
        possible = not self.held[taker] and 0 < length <= len(self.held[source])
        assert self.memory.apply(CopySequence(source, taker, length)) == possible
        if possible:
            self.fill(taker, self.held[source][:length])

    @rule(source=IDS, taker=IDS)
    def move(self, source: SequenceId, taker: SequenceId) -> None:
        possible = not self.held[taker] and bool(self.held[source])
        assert self.memory.apply(MoveSequence(source, taker)) == possible
        if possible:
            self.fill(taker, self.held[source])
            self.held[source] = []

    @rule(sequence_id=IDS, key=KEYS, length=LENGTHS)
    def save(self, sequence_id: SequenceId, key: SavedKey, length: int) -> None:
        tokens = [token for token, _ in self.held[sequence_id]][:length]
        possible = key not in self.saved and 0 < length == len(tokens)
        assert self.memory.apply(SaveSequence(sequence_id, key, length, "scope", tuple(tokens))) == possible
        if possible:
            self.saved[key] = tokens

    @rule(sequence_id=IDS, key=KEYS, length=LENGTHS)
    def restore(self, sequence_id: SequenceId, key: SavedKey, length: int) -> None:
        tokens = self.saved.get(key, [])
        room = min(self.limits.sequence_limit, self.limits.num_cells - self.num_used)
        possible = not self.held[sequence_id] and 0 < length <= len(tokens) <= room
        assert self.memory.apply(RestoreSequence(sequence_id, key, length)) == possible
        if possible:
            self.held[sequence_id] = self.new(tokens[:length])

    @rule(key=KEYS)
    def forget(self, key: SavedKey) -> None:
        assert self.memory.apply(ForgetSaved(key))
        self.saved.pop(key, None)

    def fill(self, taker: SequenceId, content: list[tuple[int, int]]) -> None:
        in_place = list(content) if self.limits.unified else self.new([token for token, _ in content])
        self.held[taker] = in_place

    @invariant()
    def says_what_it_holds(self) -> None:
        for number, held in enumerate(self.held):
            assert self.memory.tokens(SequenceId(number)) == [token for token, _ in held]
        assert self.memory.num_used == self.num_used


MemoryMachine.TestCase.settings = machine_settings(one_in=2)
test_any_sequence_of_operations = MemoryMachine.TestCase
