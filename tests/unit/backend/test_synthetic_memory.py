import pytest

from arriero.backend.protocol import DecodeError, KvExhausted
from arriero.backend.synthetic import SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticMemory, SyntheticStore
from arriero.core.errors import InvariantViolation
from arriero.core.events import (
    CopySequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import SavedKey, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk
from arriero.testing.suite_rows import FIRST, SECOND, THIRD, chunk, request_of, tokens_of

KEY, OTHER = SavedKey(1), SavedKey(2)
PROMPT = tokens_of(12)
SAVE = SaveSequence(FIRST, KEY, 12, "scope", PROMPT)


def memory_of(
    num_cells: int = 80, *, unified: bool = False, store: SyntheticStore | None = None, filled: bool = True
) -> SyntheticMemory:
    memory = SyntheticMemory(SyntheticOptions(num_cells=num_cells, unified=unified).limits(), store)
    if filled:
        memory.store([chunk(request_of(PROMPT), FIRST)])
    return memory


@pytest.mark.parametrize(
    ("start", "op"),
    [
        (12, CopySequence(FIRST, SECOND, 12)),
        (7, CopySequence(FIRST, SECOND, 7)),
        (12, MoveSequence(FIRST, SECOND)),
        (12, RestoreSequence(SECOND, KEY, 12)),
    ],
)
def test_a_prefix_of_another_prompt_raises_at_the_first_row(start: int, op: KvOp) -> None:
    memory = memory_of(store=SyntheticStore())
    assert memory.apply(SAVE)
    assert memory.apply(op)
    other = request_of((*PROMPT[:4], 63, *PROMPT[5:], 30, 31), request_id=9)
    with pytest.raises(InvariantViolation, match=r"sequence 1 holds token \d+ at position 4, where request 9 has 63"):
        memory.store([chunk(other, SECOND, start)])


def test_the_right_prefix_does_not_raise() -> None:
    memory = memory_of()
    assert memory.apply(CopySequence(FIRST, SECOND, 7))
    memory.store([chunk(request_of((*PROMPT[:7], 50, 51), request_id=2), SECOND, 7)])
    assert memory.tokens(SECOND) == [*PROMPT[:7], 50, 51]


def test_a_prefix_is_checked_again_when_the_sequence_was_changed_or_changes_hands() -> None:
    memory = memory_of()
    with pytest.raises(InvariantViolation):
        memory.store([DecodeRow(request_of((1, 2, 3)), FIRST, 12, 20)])
    memory.store([DecodeRow(request_of((*PROMPT, 20, 21)), FIRST, 12, 20)])


def test_entries_of_one_sequence_may_follow_one_another_in_a_call() -> None:
    memory = memory_of(filled=False)
    request, idle = request_of(PROMPT), request_of((), request_id=-1)
    first, second = chunk(request, FIRST, end=5, wants_logits=False), chunk(request, FIRST, 5, 7, wants_logits=False)
    memory.store([first, second, PrefillChunk(idle, FIRST, 7, (0, 0), wants_logits=False)])
    assert memory.tokens(FIRST) == [*PROMPT[:7], 0, 0]
    assert memory.apply(TrimSequence(FIRST, 7))
    with pytest.raises(DecodeError, match="holds 12 positions, the row begins at 11"):
        memory.store([chunk(request, FIRST, 7), DecodeRow(request, FIRST, 11, 20)])
    assert memory.positions(FIRST) == (0, 6)
    memory.store([chunk(request, FIRST, 7)])


def test_a_run_is_saved_under_its_own_tokens_only() -> None:
    memory = memory_of(store=SyntheticStore())
    with pytest.raises(InvariantViolation, match="is saved as"):
        memory.apply(SaveSequence(FIRST, KEY, 2, "scope", (PROMPT[0], 63)))
    assert memory.apply(SaveSequence(FIRST, KEY, 2))


def test_one_pool_counts_a_shared_cell_once() -> None:
    memory = memory_of(20, unified=True)
    assert memory.apply(CopySequence(FIRST, SECOND, 12))
    assert memory.apply(CopySequence(SECOND, THIRD, 5))
    assert memory.num_used == 12
    memory.store([DecodeRow(request_of(PROMPT), SECOND, 12, 20)])
    assert memory.num_used == 13
    assert memory.apply(MoveSequence(SECOND, SequenceId(3)))
    assert memory.num_used == 13
    with pytest.raises(KvExhausted):
        memory.store([chunk(request_of(tokens_of(8)), SECOND)])


def test_streams_hold_what_they_hold_twice() -> None:
    memory = memory_of(80)
    assert memory.apply(CopySequence(FIRST, SECOND, 12))
    assert memory.num_used == 24


def test_a_pool_without_room_refuses_to_restore() -> None:
    memory = memory_of(20, unified=True, store=SyntheticStore())
    assert memory.apply(SAVE)
    assert not memory.apply(RestoreSequence(SECOND, KEY, 12))
    assert memory.positions(SECOND) is None
    assert memory.num_used == 12


def test_a_store_survives_its_backend_under_new_keys() -> None:
    store = SyntheticStore()
    before = memory_of(store=store)
    assert before.apply(SAVE)
    assert before.apply(ForgetSaved(KEY))
    assert before.apply(SaveSequence(FIRST, OTHER, 5, "other", PROMPT[:5]))
    (run,) = store.saved_runs()
    assert (run.key, run.scope, run.tokens) == (KEY, "other", PROMPT[:5])
    after = memory_of(store=store, filled=False)
    assert after.apply(RestoreSequence(SECOND, run.key, 5))
    assert after.tokens(SECOND) == list(PROMPT[:5])


def test_what_a_preempted_request_has_computed_does_not_survive_its_backend() -> None:
    store = SyntheticStore()
    memory = memory_of(store=store)
    assert memory.apply(SaveSequence(FIRST, KEY, 12))
    assert memory.apply(SaveSequence(FIRST, OTHER, 5, "other", PROMPT[:5]))
    assert [run.scope for run in store.saved_runs()] == ["other"]
    assert store.num_tokens == 5


def test_a_corrupt_run_is_refused_and_forgotten() -> None:
    store = SyntheticStore()
    memory = memory_of(store=store)
    assert memory.apply(SAVE)
    store.corrupt(KEY)
    assert not memory.apply(RestoreSequence(SECOND, KEY, 12))
    assert memory.positions(SECOND) is None
    assert store.num_tokens == 0


def test_a_full_store_refuses() -> None:
    store = SyntheticStore(max_tokens=20)
    memory = memory_of(store=store)
    assert memory.apply(SAVE)
    assert not memory.apply(SaveSequence(FIRST, OTHER, 12, "scope", PROMPT))
    assert memory.apply(ForgetSaved(KEY))
    assert memory.apply(SaveSequence(FIRST, OTHER, 12, "scope", PROMPT))
