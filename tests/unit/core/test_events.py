from typing import get_args

import pytest

from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SavedRun,
    SaveSequence,
    TrimSequence,
    harmed_sequence,
)
from arriero.core.ids import SavedKey, SequenceId

HERE, THERE, KEY = SequenceId(1), SequenceId(2), SavedKey(7)
OPS: list[tuple[KvOp, SequenceId | None]] = [
    (DropSequence(HERE), HERE),
    (TrimSequence(HERE, 3), HERE),
    (CopySequence(THERE, HERE, 3), HERE),
    (MoveSequence(THERE, HERE), HERE),
    (RestoreSequence(HERE, KEY, 3), HERE),
    (SaveSequence(HERE, KEY, 3), None),
    (ForgetSaved(KEY), None),
]


@pytest.mark.parametrize(("op", "harmed"), OPS, ids=lambda each: type(each).__name__)
def test_a_refused_operation_harms_the_sequence_that_it_would_have_changed(op: KvOp, harmed: SequenceId | None) -> None:
    assert harmed_sequence(op) == harmed


def test_every_operation_is_among_them() -> None:
    assert {type(op) for op, _ in OPS} == set(get_args(KvOp))


def test_tokens_of_a_prompt_do_not_get_into_logs_and_messages() -> None:
    for thing in (SaveSequence(HERE, KEY, 2, "scope", (11, 12)), SavedRun(KEY, "scope", (11, 12))):
        assert "11" not in repr(thing)
