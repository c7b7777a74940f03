"""What every backend does with copies, moves, trims and saved runs, as far as it says that it can.

After each of them the next tokens are those of a sequence that was computed from its first token on.
"""

from collections.abc import Callable
from typing import Final

from arriero.backend.protocol import Backend
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
from arriero.core.ids import SavedKey, SequenceId, TokenId
from arriero.core.plan import DecodeRow
from arriero.core.request import Request
from arriero.testing.suite_rows import FIRST, SECOND, THIRD, chunk, refuses_room, request_of, tokens_of

NUM_TOKENS: Final = 8
CUT: Final = 5
KEY, OTHER_KEY = SavedKey(1), SavedKey(2)
SCOPE: Final = "suite"
STEPS: Final = 3


def prefilled(backend: Backend, sequence_id: SequenceId = FIRST, num_tokens: int = NUM_TOKENS) -> Request:
    """Compute a prompt on a sequence; without an answer."""
    request = request_of(tokens_of(num_tokens))
    backend.decode([chunk(request, sequence_id, wants_logits=False)])
    return request


def continued(backend: Backend, request: Request, sequence_id: SequenceId, start: int = NUM_TOKENS) -> list[TokenId]:
    """The next tokens of a sequence that holds `start` tokens of its prompt: the rest of it first, or a fixed token."""
    said: list[TokenId] = []
    token = 20
    if start < len(request.prompt):
        token = int(backend.decode([chunk(request, sequence_id, start)])[0].argmax())
        start = len(request.prompt)
        said.append(token)
    for position in range(start, start + STEPS):
        token = int(backend.decode([DecodeRow(request, sequence_id, position, token)])[0].argmax())
        said.append(token)
    return said


def expected(backend: Backend, start: int = NUM_TOKENS) -> list[TokenId]:
    """The same for a sequence that computed all its tokens; leaves memory as it was, on an empty third sequence."""
    request = request_of(tokens_of(NUM_TOKENS))
    backend.decode([chunk(request, THIRD, end=start, wants_logits=False)])
    said = continued(backend, request, THIRD, start)
    assert backend.apply(DropSequence(THIRD))
    return said


def save(length: int = NUM_TOKENS, sequence_id: SequenceId = FIRST, key: SavedKey = KEY) -> SaveSequence:
    """Save the beginning of the suite's prompt."""
    return SaveSequence(sequence_id, key, length, SCOPE, tokens_of(length))


def what_it_cannot_do_is_refused_and_changes_nothing(backend: Backend) -> None:
    """A backend without an operation says so, and refuses it."""
    can = backend.reuse_support
    assert bool(can.reason) == (not (can.trim and can.copy)), "a reason stands where something is missing"
    assert can.bytes_per_token > 0 or not can.save
    assert backend.saved_runs() == ()
    request = prefilled(backend)
    ops: list[tuple[bool, KvOp]] = [
        (can.copy, CopySequence(FIRST, SECOND, CUT)),
        (can.copy, MoveSequence(FIRST, SECOND)),
        (can.save, save()),
        (can.save, RestoreSequence(SECOND, KEY, CUT)),
    ]
    for possible, op in ops:
        if not possible:
            assert not backend.apply(op), op
            assert backend.positions(SECOND) is None
    assert continued(backend, request, FIRST) == expected(backend)


def a_copy_goes_on_like_its_source(backend: Backend) -> None:
    """All of a sequence, or its beginning; the source does not change."""
    if not backend.reuse_support.copy:
        return
    whole, part = expected(backend), expected(backend, CUT)
    request = prefilled(backend)
    assert backend.apply(CopySequence(FIRST, SECOND, NUM_TOKENS))
    assert backend.positions(SECOND) == (0, NUM_TOKENS - 1)
    assert backend.apply(CopySequence(FIRST, THIRD, CUT))
    assert backend.positions(THIRD) == (0, CUT - 1)
    assert backend.positions(FIRST) == (0, NUM_TOKENS - 1)
    assert continued(backend, request, SECOND) == whole
    assert continued(backend, request, THIRD, CUT) == part
    assert continued(backend, request, FIRST) == whole


def a_copy_of_a_copy_goes_on_alike(backend: Backend) -> None:
    """In a row, without a decode call in between; and the first one may be dropped."""
    if not backend.reuse_support.copy:
        return
    whole = expected(backend)
    request = prefilled(backend)
    assert backend.apply(CopySequence(FIRST, SECOND, NUM_TOKENS))
    assert backend.apply(CopySequence(SECOND, THIRD, NUM_TOKENS))
    assert backend.apply(DropSequence(FIRST))
    assert continued(backend, request, THIRD) == whole
    assert backend.apply(DropSequence(THIRD))
    assert continued(backend, request, SECOND) == whole


def a_source_that_changed_is_read_anew(backend: Backend) -> None:
    """Copies of one sequence before and after a trim and after a decode call have what it held then."""
    if not backend.reuse_support.copy:
        return
    whole = expected(backend)
    request = prefilled(backend)
    assert backend.apply(CopySequence(FIRST, SECOND, CUT))
    assert backend.apply(TrimSequence(FIRST, CUT))
    assert not backend.apply(CopySequence(FIRST, THIRD, NUM_TOKENS)), "it holds less"
    backend.decode([chunk(request, FIRST, CUT, wants_logits=False)])
    assert backend.apply(CopySequence(FIRST, THIRD, NUM_TOKENS))
    assert continued(backend, request, THIRD) == whole
    assert backend.positions(SECOND) == (0, CUT - 1)


def a_moved_sequence_goes_on_and_leaves_nothing(backend: Backend) -> None:
    """The source is empty and can be used at once."""
    if not backend.reuse_support.copy:
        return
    whole = expected(backend)
    request = prefilled(backend)
    assert backend.apply(MoveSequence(FIRST, SECOND))
    assert backend.positions(FIRST) is None
    assert backend.positions(SECOND) == (0, NUM_TOKENS - 1)
    other = request_of(tokens_of(6, first=3), request_id=2)
    backend.decode([chunk(other, FIRST, wants_logits=False), DecodeRow(request, SECOND, NUM_TOKENS, 20)])
    assert backend.apply(TrimSequence(SECOND, NUM_TOKENS))
    assert continued(backend, request, SECOND) == whole


def no_sequence_is_filled_twice_or_from_nothing(backend: Backend) -> None:
    """A target that holds something, an empty source, a longer one than there is: refused, and nothing changes."""
    if not backend.reuse_support.copy:
        return
    request = prefilled(backend)
    prefilled(backend, SECOND, CUT)
    assert not backend.apply(CopySequence(FIRST, SECOND, NUM_TOKENS))
    assert not backend.apply(MoveSequence(FIRST, SECOND))
    assert not backend.apply(CopySequence(FIRST, THIRD, NUM_TOKENS + 1))
    assert backend.apply(DropSequence(SECOND))
    assert not backend.apply(CopySequence(SECOND, THIRD, 1))
    assert not backend.apply(MoveSequence(SECOND, THIRD))
    assert backend.positions(THIRD) is None
    assert continued(backend, request, FIRST) == expected(backend)


def a_restored_run_goes_on_like_the_saved_one(backend: Backend) -> None:
    """On another sequence, after its own was dropped, whole and in part, as often as wanted."""
    if not backend.reuse_support.save:
        return
    whole, part = expected(backend), expected(backend, CUT)
    request = prefilled(backend)
    assert backend.apply(save())
    assert backend.positions(FIRST) == (0, NUM_TOKENS - 1)
    assert backend.apply(DropSequence(FIRST))
    assert backend.apply(RestoreSequence(SECOND, KEY, CUT))
    assert backend.positions(SECOND) == (0, CUT - 1)
    assert backend.apply(RestoreSequence(THIRD, KEY, NUM_TOKENS))
    assert continued(backend, request, THIRD) == whole
    assert continued(backend, request, SECOND, CUT) == part


def a_forgotten_run_is_gone(backend: Backend) -> None:
    """And so is one that never was; forgetting twice is no error, and a key is used once."""
    if not backend.reuse_support.save:
        return
    prefilled(backend)
    assert not backend.apply(RestoreSequence(SECOND, KEY, 1))
    assert not backend.apply(save(NUM_TOKENS + 1)), "it holds less"
    assert backend.apply(save(CUT))
    assert not backend.apply(save(CUT)), "the key is in use"
    assert backend.apply(save(NUM_TOKENS, key=OTHER_KEY))
    assert not backend.apply(RestoreSequence(FIRST, KEY, CUT)), "the target holds something"
    for _ in range(2):
        assert backend.apply(ForgetSaved(KEY))
    assert not backend.apply(RestoreSequence(SECOND, KEY, CUT))
    assert backend.positions(SECOND) is None
    assert backend.apply(RestoreSequence(SECOND, OTHER_KEY, NUM_TOKENS))


def one_pool_holds_a_shared_cell_once(backend: Backend) -> None:
    """In one pool copies take no room, and a cell is free when its last holder has gone; streams have their own."""
    limits = backend.limits
    if not (backend.reuse_support.copy and limits.unified):
        return
    request = request_of(tokens_of(limits.num_cells))
    for start in range(0, limits.num_cells, limits.num_rows):
        backend.decode([chunk(request, FIRST, start, start + limits.num_rows, wants_logits=False)])
    row = DecodeRow(request, SECOND, CUT, 20)
    assert backend.apply(CopySequence(FIRST, SECOND, CUT))
    assert refuses_room(backend, row)
    assert backend.apply(TrimSequence(FIRST, CUT - 1)), "the copy still holds the last of its own cells"
    assert backend.decode([row]).shape[0] == 1
    assert backend.apply(DropSequence(FIRST))
    assert backend.positions(SECOND) == (0, CUT)


MEMORY_CHECKS: Final[tuple[Callable[[Backend], None], ...]] = (
    what_it_cannot_do_is_refused_and_changes_nothing,
    a_copy_goes_on_like_its_source,
    a_copy_of_a_copy_goes_on_alike,
    a_source_that_changed_is_read_anew,
    a_moved_sequence_goes_on_and_leaves_nothing,
    no_sequence_is_filled_twice_or_from_nothing,
    a_restored_run_goes_on_like_the_saved_one,
    a_forgotten_run_is_gone,
    one_pool_holds_a_shared_cell_once,
)
