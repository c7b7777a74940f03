"""CellManager and both supplies of ids against books that are one dictionary and one scan."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arriero.core.events import AdmissionSource, DropSequence, KvOp, TrimSequence
from arriero.core.ids import RequestId, SequenceId
from arriero.kv.cells import CellManager
from arriero.kv.protocol import ReleaseCause, Shortage, Started
from arriero.testing.strategies import SchedulerSetup, setups
from tests.property.machines import machine_settings

PRELOADED, CANCELLED, COMPLETED, IDLE = "none", "cancel_freed", "completion_freed", "initial_idle"
POOL_ORDER = (PRELOADED, CANCELLED, COMPLETED, IDLE)


class CellMachine(RuleBasedStateMachine):
    """Any sequence of verbs; ids are those of the model, so only held ones are grown or released."""

    manager: CellManager

    @initialize(setup=setups())
    def build(self, setup: SchedulerSetup) -> None:
        self.setup = setup
        self.layout = setup.layout
        self.manager = CellManager(setup.layout, setup.new_ids())
        self.held: dict[int, int] = {}
        self.owner: dict[int, RequestId] = {}
        self.quarantined: set[int] = set()
        self.largest = 0
        self.tags = {each: self._first_tag(each) for each in range(setup.layout.num_sequences)}
        self.ops: list[KvOp] = []

    def _first_tag(self, each: int) -> str:
        return PRELOADED if each < (self.setup.num_preloaded or 0) else IDLE

    def _next_id(self) -> tuple[str, int] | None:
        usable = [(tag, each) for each, tag in self.tags.items() if tag in POOL_ORDER]
        if self.setup.num_preloaded is None:
            return min(usable, key=lambda pair: pair[1], default=None)
        return min(usable, key=lambda pair: (POOL_ORDER.index(pair[0]), pair[1]), default=None)

    @rule()
    def begin_step(self) -> None:
        assert self.manager.is_resting == ("resting" in self.tags.values())
        self.manager.begin_step(0)
        self.tags = {each: CANCELLED if tag == "resting" else tag for each, tag in self.tags.items()}

    @rule(num_tokens=st.integers(1, 30), headroom=st.integers(0, 8), request_id=st.integers(1, 99))
    def start(self, num_tokens: int, headroom: int, request_id: int) -> None:
        before = self.manager.usage()
        answer = self.manager.start(RequestId(request_id), num_tokens, headroom)
        missing = [num_tokens - self.layout.sequence_limit]
        if self.layout.unified:
            free = self.layout.num_cells - sum(self.held.values())
            missing.append(num_tokens + (headroom if self.held else 0) - free)
        chosen = self._next_id()
        if max(missing) > 0 or chosen is None:
            assert answer == Shortage(max(0, *missing))
            assert self.manager.usage() == before
            return
        tag, each = chosen
        assert answer == Started(SequenceId(each), AdmissionSource(tag), self.owner.get(each))
        del self.tags[each]
        self.held[each] = num_tokens
        self.owner[each] = RequestId(request_id)
        self.largest = max(self.largest, num_tokens)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), num_tokens=st.integers(1, 6))
    def grow(self, data: st.DataObject, num_tokens: int) -> None:
        each = data.draw(st.sampled_from(sorted(self.held)))
        before = self.manager.usage()
        refused = self.manager.grow(SequenceId(each), num_tokens)
        missing = [self.held[each] + num_tokens - self.layout.sequence_limit]
        if self.layout.unified:
            missing.append(num_tokens - (self.layout.num_cells - sum(self.held.values())))
        if max(missing) > 0:
            assert refused == Shortage(max(missing))
            assert self.manager.usage() == before
            return
        assert refused is None
        self.held[each] += num_tokens
        self.largest = max(self.largest, self.held[each])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def rewind(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(sorted(self.held)))
        length = data.draw(st.integers(0, 40))
        self.manager.rewind(SequenceId(each), length)
        self.held[each] = min(self.held[each], length)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), cause=st.sampled_from(ReleaseCause), num_waiting=st.integers(0, 2))
    def release(self, data: st.DataObject, cause: ReleaseCause, num_waiting: int) -> None:
        each = data.draw(st.sampled_from(sorted(self.held)))
        self.manager.release(SequenceId(each), cause, num_waiting)
        self.ops.append(DropSequence(SequenceId(each)))
        del self.held[each]
        if each not in self.quarantined:
            self.tags[each] = self._tag_after(each, cause, num_waiting)

    def _tag_after(self, each: int, cause: ReleaseCause, num_waiting: int) -> str:
        if cause is ReleaseCause.CANCELLED:
            return "resting"
        if self.setup.num_preloaded is None or cause in {ReleaseCause.PREEMPTED, ReleaseCause.EVICTED}:
            return COMPLETED
        if self.setup.reuse_completed and num_waiting:
            return COMPLETED
        return IDLE if each >= self.setup.num_preloaded else "retired"

    @rule(data=st.data(), trim=st.booleans())
    def refuse(self, data: st.DataObject, trim: bool) -> None:  # noqa: FBT001 - drawn
        each = data.draw(st.integers(0, self.layout.num_sequences - 1))
        before = self.manager.usage()
        if trim:
            self.manager.refuse(TrimSequence(SequenceId(each), 0))
            assert self.manager.usage() == before
            return
        self.manager.refuse(DropSequence(SequenceId(each)))
        self.quarantined.add(each)
        self.tags.pop(each, None)

    @rule()
    def take_ops(self) -> None:
        assert list(self.manager.take_ops()) == self.ops
        assert self.manager.take_ops() == ()
        self.ops.clear()

    @invariant()
    def the_books_agree(self) -> None:
        self.manager.check()
        usage = self.manager.usage()
        active = sum(self.held.values())
        assert usage == replace(
            usage,
            num_cells=self.layout.num_cells,
            active_cells=active,
            free_cells=self.layout.num_cells - active,
            sequences_held=len(self.held),
            sequences_free=sum(tag != "retired" for tag in self.tags.values()),
            sequences_quarantined=len(self.quarantined),
            largest_sequence=self.largest,
            held_tokens=active,
        )


TestCells = CellMachine.TestCase
TestCells.settings = machine_settings(one_in=5)
