"""Prefix reuse by a CellManager: what is found, what is shared, what goes when room is short."""

import pytest

from arriero.core.events import (
    AdmissionSource,
    CopySequence,
    DropSequence,
    PrefixSource,
    RestoreSequence,
    ReuseVerdict,
    SavedRun,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import SavedKey, SequenceId
from arriero.kv.protocol import ReleaseCause, Shortage, Started
from arriero.kv.reuse import EvictionCause, ReuseRules
from tests.unit.kv.cell_user import SYSTEM, CellUser

S0, S1, S2, S3 = map(SequenceId, range(4))
HOST = ReuseRules(host_tokens=500, min_restored=1)


# ── what is found ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("unified", [True, False])
def test_c7_the_cells_of_a_running_request_are_reused(unified: bool) -> None:  # noqa: FBT001 - a parameter
    user = CellUser(unified=unified)
    user.start(*SYSTEM, 1, 2)
    started = user.start(*SYSTEM, 3, 4)
    assert (started.num_cached, started.prefix) == (40, PrefixSource.RUNNING)
    assert user.ops == (CopySequence(S0, S1, 40),)
    usage = user.kv.usage()
    assert (usage.held_tokens, usage.active_cells) == (84, 44 if unified else 84)


def test_a_running_prompt_is_found_as_far_as_it_is_computed() -> None:
    user = CellUser()
    user.ask(*SYSTEM)
    for computed in (0, 7, 16, 40):
        user.kv.publish(S0, computed)
        assert user.kv.lookup((*SYSTEM, 1), "a", 40).num_tokens == computed
        assert user.kv.foreseen((*SYSTEM, 1), "a", 40) == (40 if computed < 40 else 0)


def test_a_prompt_is_foreseen_until_its_request_ends() -> None:
    user = CellUser()
    user.ask(*SYSTEM)
    assert user.kv.foreseen((*SYSTEM[:20], 1), "a", 20) == 20
    assert user.kv.foreseen((*SYSTEM[:20], 1), "b", 20) == 0
    user.end(0, ReleaseCause.PREEMPTED, keeps=False)
    assert user.kv.foreseen((*SYSTEM[:20], 1), "a", 20) == 0


def test_the_leader_is_the_sequence_that_computes_what_is_foreseen_and_of_several_the_first() -> None:
    user = CellUser()
    assert user.kv.leader((*SYSTEM, 1), "a", 40) is None
    user.ask(9, 9)
    user.ask(*SYSTEM, 5)
    user.ask(*SYSTEM, 6)
    assert user.kv.leader((*SYSTEM, 1), "a", 40) == S1
    assert user.kv.leader((*SYSTEM, 6, 1), "a", 41) == S2
    assert user.kv.leader((*SYSTEM, 1), "b", 40) is None
    user.end(1, ReleaseCause.CANCELLED, keeps=False)
    assert user.kv.leader((*SYSTEM, 1), "a", 40) == S2
    user.kv.publish(S2, 41)
    assert user.kv.leader((*SYSTEM, 1), "a", 40) is None, "it is there"


def test_a_leader_that_is_cancelled_leaves_what_it_has_computed() -> None:
    user = CellUser()
    user.ask(*SYSTEM)
    user.kv.publish(S0, 24)
    user.end(0, ReleaseCause.CANCELLED, computed=SYSTEM[:24])
    assert user.ops == (TrimSequence(S0, 24),)
    started = user.start(*SYSTEM, 1)
    assert (started.num_cached, user.kv.foreseen((*SYSTEM, 1), "a", 40)) == (24, 0)


def test_the_answer_is_found_by_the_next_turn() -> None:
    user = CellUser()
    user.serve(*SYSTEM, answer=(1, 2, 3))
    started = user.serve(*SYSTEM, 1, 2, 3, 9, answer=(4,))
    assert (started.num_cached, started.prefix) == (43, PrefixSource.TREE)


def test_in_exact_mode_only_prompts_are_found_and_no_row_is_left_alone() -> None:
    user = CellUser(ReuseRules(keeps_answers=False, min_suffix=2))
    user.serve(*SYSTEM, answer=(1, 2, 3))
    assert user.ops == (TrimSequence(S0, 40),)
    assert user.lengths == {0: 40}
    assert user.kv.lookup((*SYSTEM, 1, 2, 3, 4), "a", 43).num_tokens == 40
    assert user.kv.lookup((*SYSTEM, 1), "a", 40).num_tokens == 39
    assert user.kv.lookup(SYSTEM, "a", 39).num_tokens == 38


def test_c16_nothing_is_found_in_another_scope_or_without_one() -> None:
    user = CellUser()
    user.serve(*SYSTEM, 1)
    user.start(*SYSTEM, 2)
    assert user.kv.lookup(SYSTEM, "b", 39).verdict is ReuseVerdict.NO_MATCH
    assert user.kv.lookup(SYSTEM, None, 39).verdict is ReuseVerdict.NO_SCOPE
    assert user.serve(*SYSTEM, scope=None).num_cached == 0
    assert user.kv.lookup(SYSTEM, "b", 39).num_tokens == 0


def test_rows_computed_after_a_stop_are_trimmed_before_the_run_is_kept() -> None:
    user = CellUser()
    started = user.start(*SYSTEM)
    user.say(started.sequence_id, 1, 2, 3)
    user.end(0, computed=(*SYSTEM, 1))
    assert user.ops == (TrimSequence(S0, 41),)
    assert user.lengths == {0: 41}


def test_without_rules_nothing_is_kept() -> None:
    user = CellUser()
    plain = type(user.kv)(user.kv._layout)
    assert plain.lookup(SYSTEM, "a", 39).verdict is ReuseVerdict.DISABLED
    assert (plain.reuse_figures(), plain.picture(), plain.retained()) == (None, None, ())


# ── which id, and who gives way ─────────────────────────────────────────────────────────────────────────────────────


def test_a_free_id_comes_before_one_on_which_a_run_lies() -> None:
    user = CellUser()
    for each in range(4):
        assert user.serve(each).sequence_id == each
    started = user.serve(9)
    assert (started.sequence_id, started.source) == (0, AdmissionSource.EVICTED_RECLAIM)
    assert user.ops == (DropSequence(S0),)
    assert user.figures.evictions[EvictionCause.DEMAND] == 1


def test_a_run_that_was_used_goes_later() -> None:
    user = CellUser(num_sequences=3)
    user.serve(*SYSTEM, 1)
    user.serve(2, 2)
    user.serve(*SYSTEM, 3)
    assert user.lengths == {1: 2, 0: 41, 2: 41}
    assert user.serve(9).sequence_id == 1


def test_what_is_found_gives_way_last_and_is_then_taken_over_in_place() -> None:
    user = CellUser(num_sequences=2)
    user.serve(*SYSTEM, 1)
    user.start(5)
    started = user.start(*SYSTEM, 2)
    assert (started.sequence_id, started.num_cached, started.source) == (0, 40, AdmissionSource.COMPLETION_FREED)
    assert user.ops == (TrimSequence(S0, 40),)


def test_a_retained_run_is_copied_rather_than_a_running_one() -> None:
    user = CellUser()
    user.start(*SYSTEM, 1)
    user.start(*SYSTEM, 2)
    user.end(0)
    started = user.start(*SYSTEM, 3)
    assert (started.prefix, user.ops) == (PrefixSource.TREE, (CopySequence(S0, S2, 40),))


def test_a_finished_run_supersedes_those_whose_whole_text_it_begins_with() -> None:
    user = CellUser()
    user.serve(*SYSTEM)
    user.serve(7, 7)
    user.serve(*SYSTEM, 1)
    assert user.lengths == {1: 2, 2: 41}
    user.serve(*SYSTEM, 1)  # the same once more
    assert list(user.lengths.values()) == [2, 41]
    assert user.figures.evictions[EvictionCause.SUPERSEDED] == 2


def test_a_run_that_a_longer_one_begins_with_is_not_kept_and_that_one_was_used() -> None:
    user = CellUser()
    user.start(*SYSTEM)
    user.serve(*SYSTEM, 1)
    user.serve(5)
    user.end(0)
    assert user.ops == (DropSequence(S0),)
    assert list(user.lengths) == [2, 1]


def test_a_resting_id_suppresses_eviction_for_one_step() -> None:
    user = CellUser(num_sequences=2)
    user.serve(5)
    user.step()
    user.start(6, scope=None)
    user.end(1, ReleaseCause.CANCELLED)
    assert user.ask(7) == Shortage(0)
    assert user.kv.is_resting
    user.step()
    started = user.ask(7)
    assert isinstance(started, Started)
    assert (started.sequence_id, started.source) == (1, AdmissionSource.CANCEL_FREED)


def test_a_run_whose_request_was_cancelled_rests_too_but_may_be_copied() -> None:
    user = CellUser(num_sequences=2)
    user.start(*SYSTEM)
    user.end(0, ReleaseCause.CANCELLED)
    assert user.start(*SYSTEM, 1).num_cached == 40
    assert (user.ops, user.kv.is_resting) == ((CopySequence(S0, S1, 40),), True)
    assert user.ask(5) == Shortage(0)
    user.step()
    assert isinstance(user.ask(5), Started)


def test_runs_go_for_cells_and_those_first_that_free_any() -> None:
    user = CellUser(num_cells=100, sequence_limit=100)
    user.serve(*SYSTEM)
    user.start(*SYSTEM, 2)
    user.serve(5, 5)
    assert list(user.lengths) == [0, 2]
    assert (user.kv.usage().active_cells, user.kv.usage().free_cells) == (41, 57)
    user.start(*range(58))
    # Dropping the run on id 0 would free nothing: somebody runs on its cells.
    assert user.ops == (DropSequence(S2),)
    assert user.figures.evictions[EvictionCause.POOL] == 1


def test_runs_go_for_decoding_but_not_in_steps_that_are_promised() -> None:
    user = CellUser(num_cells=50, sequence_limit=50)
    user.serve(*range(20))
    user.start(*range(100, 120))
    assert user.kv.steps_ahead([S1]) == 10
    user.say(1, *range(10))
    assert not user.ops
    user.say(1, 0)
    assert user.ops == (DropSequence(S0),)


def test_c1_decoding_without_any_room_says_so_and_changes_nothing() -> None:
    user = CellUser(num_cells=40, sequence_limit=40)
    user.start(*range(20))
    user.start(*range(100, 120))
    assert not user.kv.grow_each([S0, S1])
    assert user.kv.grow(S0, 1) == Shortage(1)
    assert user.kv.usage().active_cells == 40


def test_runs_are_bounded_in_number_and_age() -> None:
    user = CellUser(ReuseRules(max_retained=2, max_age=10))
    for each in range(3):
        user.serve(each)
    assert user.lengths == {1: 1, 2: 1}
    user.step(13)
    assert user.lengths == {2: 1}
    assert user.ops == (DropSequence(S1),)
    user.step(14)
    assert user.lengths == {}
    evictions = user.figures.evictions
    assert (evictions[EvictionCause.COUNT], evictions[EvictionCause.AGE]) == (1, 2)


# ── the separate layout and the host store ──────────────────────────────────────────────────────────────────────────


def test_with_a_host_store_the_lowest_id_is_taken_and_what_lies_there_is_saved() -> None:
    user = CellUser(HOST, unified=False)
    user.serve(*SYSTEM, 1)
    started = user.serve(5, 5)
    assert (started.sequence_id, started.source) == (0, AdmissionSource.EVICTED_RECLAIM)
    assert user.ops == (SaveSequence(S0, SavedKey(1), 41, "a", (*SYSTEM, 1)), DropSequence(S0))


def test_the_run_that_was_found_is_taken_over_where_it_lies_on_the_lowest_id() -> None:
    user = CellUser(HOST, unified=False)
    user.serve(*SYSTEM, answer=(1,))
    assert user.serve(*SYSTEM, 1, 2).num_cached == 41
    assert not user.ops
    assert user.serve(*SYSTEM, 3).num_cached == 40
    assert user.ops == (SaveSequence(S0, SavedKey(1), 42, "a", (*SYSTEM, 1, 2)), TrimSequence(S0, 40))


def test_any_run_on_the_lowest_id_is_taken_over_that_begins_with_what_was_found() -> None:
    user = CellUser(HOST, unified=False)
    user.start(*SYSTEM, 1)
    user.start(*SYSTEM, 2)
    user.end(0)
    user.end(1)
    assert user.kv.lookup((*SYSTEM, 2, 3), "a", 41).num_tokens == 41
    assert user.start(*SYSTEM, 3).sequence_id == 0
    assert user.ops[-1] == TrimSequence(S0, 40)


def test_a_saved_run_comes_back() -> None:
    user = CellUser(HOST, unified=False)
    user.serve(*SYSTEM, 1)
    user.serve(5, 5)
    started = user.serve(*SYSTEM, 1, 2)
    assert (started.num_cached, started.prefix) == (41, PrefixSource.HOST)
    assert user.ops[-1] == RestoreSequence(S0, SavedKey(1), 41)
    assert user.figures.host_runs == 2


def test_c12_what_an_earlier_life_saved_is_found() -> None:
    user = CellUser(HOST, unified=False)
    assert user.kv.adopt([SavedRun(SavedKey(4), "a", SYSTEM)]) == 1
    started = user.serve(*SYSTEM, 1)
    assert (started.num_cached, started.prefix) == (40, PrefixSource.DISK)


def test_restoring_into_a_full_pool_makes_room_first_and_never_at_the_cost_of_what_is_restored() -> None:
    rules = ReuseRules(host_tokens=81, min_restored=1)
    user = CellUser(rules, num_cells=60, sequence_limit=60)
    user.serve(*SYSTEM)
    user.serve(*range(40))
    assert [run.key for run in user.kv.retained()] == [None, 1]
    started = user.serve(*SYSTEM, 1)
    assert started.prefix is PrefixSource.HOST
    assert [type(op) for op in user.ops[:3]] == [SaveSequence, DropSequence, RestoreSequence]
    # The store was as good as full: the run of 40 others fits beside the one that is leased.
    assert [run.key for run in user.kv.retained() if run.is_saved] == [1, 2]


def test_what_is_being_restored_stays_although_saving_others_would_need_its_room() -> None:
    user = CellUser(ReuseRules(host_tokens=60, min_restored=1), num_cells=60, sequence_limit=60)
    user.serve(*SYSTEM)
    user.serve(*range(40))
    assert user.serve(*SYSTEM, 1).prefix is PrefixSource.HOST
    assert user.ops == (DropSequence(S1), RestoreSequence(S0, SavedKey(1), 40))


def test_a_saved_run_that_does_not_fit_whole_is_not_restored_in_part() -> None:
    user = CellUser(HOST, num_cells=60, sequence_limit=60)
    user.serve(*SYSTEM, *range(15))
    user.serve(*range(30))
    assert [run.length for run in user.kv.retained() if run.is_saved] == [55]
    beside = user.start(*range(100, 110), scope="b")
    started = user.start(*SYSTEM[:20], 1)
    assert started.num_cached == 0
    user.end(started.sequence_id, keeps=False)
    user.end(beside.sequence_id, keeps=False)
    assert user.start(*SYSTEM[:20], 1).num_cached == 20


def test_where_runs_age_no_step_is_jumped_over() -> None:
    user = CellUser(ReuseRules(max_age=10))
    user.start(5)
    assert user.kv.steps_ahead([S0]) == 199
    user.serve(7)
    assert user.kv.steps_ahead([S0]) == 0


def test_saved_runs_age_too() -> None:
    user = CellUser(ReuseRules(host_tokens=60, max_age=10))
    user.serve(*SYSTEM)
    user.kv.save_retained()
    user.step(11)
    assert [run.is_saved for run in user.kv.retained()] == [False, True]
    user.step(12)
    assert user.kv.retained() == ()


def test_saving_all_orders_what_the_store_lacks_and_the_last_used_first() -> None:
    user = CellUser(ReuseRules(host_tokens=50))
    for prompt in ((1, 1), SYSTEM, (2, 2, 2), (*SYSTEM[:10], 5)):
        user.serve(*prompt)
    assert user.kv.save_retained() == (3, 16)  # the run of 40 does not fit beside the one of 11 that was used after it
    saved = [op.tokens for op in user.take() if isinstance(op, SaveSequence)]
    assert saved == [(1, 1), (2, 2, 2), (*SYSTEM[:10], 5)]
    assert user.kv.save_retained() == (0, 0)


def test_clearing_at_the_end_leaves_the_store_alone_and_erasing_does_not() -> None:
    user = CellUser(HOST)
    user.serve(*SYSTEM)
    user.kv.save_retained()
    user.kv.clear_retained(EvictionCause.TEARDOWN)
    user.take()
    assert [run.key for run in user.kv.retained()] == [1]
    user.kv.clear_retained(EvictionCause.ERASED)
    assert user.kv.retained() == ()
    evictions = user.figures.evictions
    assert (evictions[EvictionCause.TEARDOWN], evictions[EvictionCause.ERASED]) == (1, 1)


# ── what others see ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_figures_are_the_same_object_until_something_changes() -> None:
    user = CellUser()
    user.serve(*SYSTEM, 1)
    first = user.figures
    assert user.figures is first
    user.start(*SYSTEM, 2)
    figures = user.figures
    assert figures.lookups == {**first.lookups, ReuseVerdict.REUSED: 1}
    assert (figures.hits[PrefixSource.TREE], figures.cached_tokens[PrefixSource.TREE], figures.copies) == (1, 40, 1)
    assert (figures.retained_runs, figures.retained_cells, figures.shared_cells) == (1, 1, 40)


def test_a_picture_shows_runs_and_trees_and_no_tokens() -> None:
    user = CellUser(HOST)
    user.serve(*SYSTEM, 1)
    user.kv.save_retained()
    user.start(*SYSTEM, 2)
    picture = user.kv.picture()
    assert picture is not None
    assert [(run.sequence_id, run.key, run.num_hits) for run in picture.runs] == [(0, None, 1), (None, 1, 0)]
    assert [scope for scope, _ in picture.trees] == [scope for scope, _ in picture.host_trees] == ["a"]
    assert str(SYSTEM[7]) not in repr(picture)
