"""What a CellManager does where memory refuses an operation: the request starts again and computes everything."""

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
from arriero.core.ids import SavedKey, SequenceId
from arriero.kv.protocol import ReleaseCause, Started
from arriero.kv.reuse import EvictionCause, ReuseRules
from tests.unit.kv.cell_user import SYSTEM, CellUser

S0, S1 = SequenceId(0), SequenceId(1)
HOST = ReuseRules(host_tokens=500, min_restored=1)


def refuse(user: CellUser, op: KvOp, *, preempts: int | None = None) -> tuple[KvOp, ...]:
    """Tell a refusal as a scheduler does; returns what that ordered."""
    assert op in user.ops
    user.kv.refuse(op)
    if preempts is not None:
        user.end(preempts, ReleaseCause.PREEMPTED, keeps=False)
    return user.take() if preempts is None else user.ops


def test_a_refused_copy_withdraws_the_run_that_it_came_from() -> None:
    user = CellUser()
    user.serve(*SYSTEM, 1)
    user.step()
    user.start(*SYSTEM, 2)
    assert refuse(user, CopySequence(S0, S1, 40), preempts=1) == (DropSequence(S0), DropSequence(S1))
    assert user.start(*SYSTEM, 2).num_cached == 0
    figures = user.figures
    assert (figures.evictions[EvictionCause.REFUSED], figures.refused, figures.copies) == (1, 1, 0)
    assert sum(figures.hits.values()) == sum(figures.cached_tokens.values()) == 0


def test_a_refused_copy_from_a_running_request_leaves_that_one_alone() -> None:
    user = CellUser()
    user.start(*SYSTEM, 1)
    user.start(*SYSTEM, 2)
    assert refuse(user, CopySequence(S0, S1, 40), preempts=1) == (DropSequence(S1),)
    user.say(0, 5)
    assert user.kv.lookup((*SYSTEM, 2), "a", 40).num_tokens == 0
    user.end(0)
    assert (user.ops, user.lengths) == ((DropSequence(S0),), {})


def test_g52_a_refused_trim_falls_back_to_a_full_prefill() -> None:
    user = CellUser(ReuseRules(per_session=True, min_partial=32, regenerate=False))
    user.serve(*SYSTEM, 1, 2)
    user.step()
    user.start(*SYSTEM, 3)
    assert refuse(user, TrimSequence(S0, 40), preempts=0) == (DropSequence(S0),)
    started = user.start(*SYSTEM, 3)
    assert started.num_cached == 0
    sessions = user.figures.sessions
    assert (sessions.lcp_trim_refused, sessions.lcp_reuse_admitted_count, sessions.lcp_reuse_trimmed_tokens) == (
        1,
        0,
        0,
    )


def test_a_refused_restore_forgets_the_saved_run() -> None:
    user = CellUser(HOST, unified=False)
    user.serve(*SYSTEM, 1)
    user.serve(5, 5)
    user.step()
    user.start(*SYSTEM, 1, 2)
    ordered = refuse(user, RestoreSequence(S0, SavedKey(1), 41), preempts=0)
    assert ordered == (ForgetSaved(SavedKey(1)), DropSequence(S0))
    assert user.start(*SYSTEM, 1, 2).num_cached == 0


def test_a_refused_save_forgets_the_key_and_harms_nobody() -> None:
    user = CellUser(HOST, unified=False)
    user.serve(*SYSTEM, 1)
    user.step()
    user.start(5, 5)
    save = user.ops[0]
    assert isinstance(save, SaveSequence)
    assert refuse(user, save) == ()
    assert user.kv.retained() == ()
    assert user.kv.lookup((*SYSTEM, 2), "a", 40).num_tokens == 0


def test_a_run_that_could_not_be_trimmed_at_its_end_is_dropped() -> None:
    user = CellUser()
    user.start(*SYSTEM)
    user.say(0, 1, 2)
    user.end(0, computed=(*SYSTEM, 1))
    assert refuse(user, TrimSequence(S0, 41)) == (DropSequence(S0),)
    assert (user.lengths, user.kv.usage().sequences_free) == ({}, 4)


def test_an_id_that_memory_would_not_clear_is_out_of_service_with_the_run_that_lies_there_meanwhile() -> None:
    user = CellUser(num_sequences=2)
    user.start(5, scope=None)
    user.end(0)
    drop = user.ops
    user.start(*SYSTEM)
    user.end(0)
    user.ops = drop
    assert refuse(user, DropSequence(S0)) == ()
    usage = user.kv.usage()
    assert (usage.sequences_quarantined, usage.sequences_free, usage.sequences_retained) == (1, 1, 0)
    assert user.kv.lookup(SYSTEM, "a", 39).num_tokens == 0


def test_a_request_on_an_id_out_of_service_leaves_no_run() -> None:
    user = CellUser(num_sequences=2)
    user.start(*SYSTEM)
    user.kv.refuse(DropSequence(S0))
    user.end(0)
    assert (user.ops, user.lengths, user.kv.usage().sequences_free) == ((DropSequence(S0),), {}, 1)


def test_a_refusal_of_what_nobody_ordered_for_this_request_costs_no_run() -> None:
    user = CellUser()
    user.serve(*SYSTEM, 1)
    user.start(*SYSTEM, 2)
    user.kv.refuse(CopySequence(S0, S1, 39))
    user.kv.refuse(TrimSequence(S1, 12))
    user.kv.refuse(ForgetSaved(SavedKey(3)))
    assert (user.take(), user.lengths) == ((), {0: 41})


def test_a_refused_move_leaves_nothing_behind() -> None:
    user = CellUser(unified=False)
    user.start(5)
    user.start(*SYSTEM)
    user.end(0, keeps=False)
    assert user.kv.move_down(S1) == 0
    assert user.take() == (MoveSequence(S1, S0), DropSequence(S1))
    user.known[0] = user.known.pop(1)
    assert refuse(user, MoveSequence(S1, S0), preempts=0) == (DropSequence(S0),)
    usage = user.kv.usage()
    assert (usage.sequences_free, usage.active_cells) == (4, 0)


def test_a_run_that_could_not_be_moved_out_of_the_way_is_lost() -> None:
    user = CellUser(unified=False)
    user.start(5, 5)
    user.start(*SYSTEM)
    user.end(0)
    assert user.kv.move_down(S1) == 0
    user.take()
    assert refuse(user, MoveSequence(S0, SequenceId(2))) == (DropSequence(SequenceId(2)),)
    assert (user.lengths, user.kv.usage().sequences_held) == ({}, 1)


def test_copies_of_a_copy_that_was_refused_are_refused_too_and_nothing_is_left_of_either() -> None:
    user = CellUser(ReuseRules(), num_sequences=3)
    user.serve(*SYSTEM, 1)
    user.step()
    first = user.ask(*SYSTEM, 2)
    second = user.ask(*SYSTEM, 3)
    assert isinstance(first, Started)
    assert isinstance(second, Started)
    for source, target in ((0, 1), (0, 2)):
        user.kv.refuse(CopySequence(SequenceId(source), SequenceId(target), 40))
        user.end(target, ReleaseCause.PREEMPTED, keeps=False)
    usage = user.kv.usage()
    assert (usage.free_cells, usage.sequences_free) == (usage.num_cells, 3)
