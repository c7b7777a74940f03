"""The published rules of sessions, as a CellManager keeps them; the names of gates are those of the specification."""

import pytest

from arriero.core.events import AdmissionSource, DropSequence, PrefixSource, ReuseVerdict, TrimSequence
from arriero.core.ids import SequenceId
from arriero.kv.protocol import ReleaseCause
from arriero.kv.reuse import EvictionCause, ReuseRules
from tests.unit.kv.cell_user import SYSTEM, CellUser

RULES = ReuseRules(per_session=True, min_partial=32, regenerate=False, follows=False)
S0 = SequenceId(0)
P = tuple(range(6))
ANSWER = tuple(range(50, 57))  # of 8 tokens the last one never enters KV


@pytest.mark.parametrize("unified", [True, False])
def test_g23_a_completed_request_leaves_a_resident_that_the_end_clears(unified: bool) -> None:  # noqa: FBT001
    user = CellUser(RULES, unified=unified)
    user.serve(*P, answer=ANSWER)
    assert (user.ops, user.lengths) == ((), {0: 13})
    user.kv.clear_retained(EvictionCause.TEARDOWN)
    assert user.take() == (DropSequence(S0),)
    assert user.figures.sessions.resident_slots_created_count == user.figures.evictions[EvictionCause.TEARDOWN] == 1


@pytest.mark.parametrize("unified", [True, False])
def test_g24_an_exact_continuation_goes_on_in_its_slot(unified: bool) -> None:  # noqa: FBT001 - a parameter
    user = CellUser(RULES, unified=unified)
    user.serve(*P, answer=ANSWER)
    started = user.start(*P, *ANSWER, 9)
    assert (started.sequence_id, started.num_cached) == (0, 13)
    assert (started.source, started.prefix) == (AdmissionSource.SESSION_REUSE, PrefixSource.SESSION)
    assert (user.ops, started.previous_request_id) == ((), 1)
    sessions = user.figures.sessions
    assert (sessions.session_reuse_admitted_count, sessions.session_reuse_prefill_skipped_tokens) == (1, 13)


def test_g25_the_oldest_resident_goes_where_no_slot_is_free() -> None:
    user = CellUser(RULES, num_sequences=2)
    user.serve(*P, scope="a")
    user.serve(*P, scope="b")
    started = user.serve(*P, scope="c")
    assert (started.sequence_id, started.source) == (0, AdmissionSource.EVICTED_RECLAIM)
    sessions = user.figures.sessions
    assert (sessions.resident_slots_evicted_count, sessions.last_evicted_resident_lru) == (1, 1)
    assert sessions.session_reuse_admitted_count + sessions.lcp_reuse_admitted_count == 0


@pytest.mark.parametrize(("common", "reused"), [(31, False), (32, True)])
def test_g26_g28_a_beginning_counts_from_32_tokens_on(common: int, reused: bool) -> None:  # noqa: FBT001 - a table
    user = CellUser(RULES, num_sequences=1)
    user.serve(*SYSTEM, answer=(1, 2))
    started = user.serve(*SYSTEM[:common], 9, 9)
    assert (started.num_cached == common) == reused
    sessions = user.figures.sessions
    assert sessions.lcp_reuse_admitted_count == reused
    assert sessions.resident_slots_evicted_count == (not reused)


def test_g27_what_goes_another_way_is_trimmed() -> None:
    user = CellUser(RULES)
    user.serve(*SYSTEM, answer=tuple(range(15)))
    started = user.start(*SYSTEM, 0, 1, 2, 90)
    assert (started.num_cached, started.source) == (43, AdmissionSource.SESSION_REUSE_LCP)
    assert user.ops == (TrimSequence(S0, 43),)
    sessions = user.figures.sessions
    assert (sessions.lcp_reuse_matched_tokens, sessions.lcp_reuse_trimmed_tokens) == (43, 12)
    assert sessions.session_reuse_admitted_count == 0


def test_g29_another_session_finds_nothing() -> None:
    user = CellUser(RULES)
    user.serve(*SYSTEM)
    assert user.start(*SYSTEM, 1, scope="b").num_cached == 0


@pytest.mark.parametrize("length", [36, 40])
def test_g30_a_prompt_without_a_new_token_is_reused_only_by_the_option(length: int) -> None:
    user = CellUser(RULES)
    user.serve(*SYSTEM)
    assert user.kv.lookup(SYSTEM[:length], "a", length - 1).verdict is ReuseVerdict.WHOLE_PROMPT
    user = CellUser(ReuseRules(per_session=True, min_partial=32))
    user.serve(*SYSTEM)
    started = user.start(*SYSTEM[:length])
    assert (started.num_cached, user.ops) == (length - 1, (TrimSequence(S0, length - 1),))


def test_g31_a_cancelled_continuation_leaves_no_resident() -> None:
    user = CellUser(RULES)
    user.serve(*SYSTEM)
    user.step()
    user.start(*SYSTEM, 1)
    user.end(0, ReleaseCause.CANCELLED, keeps=False)
    assert (user.ops, user.lengths) == ((DropSequence(S0),), {})
    user.step()
    assert user.start(*SYSTEM, 1).source is AdmissionSource.CANCEL_FREED


def test_g32_a_second_request_of_a_session_computes_everything_and_then_the_longest_match_wins() -> None:
    user = CellUser(RULES)
    user.start(*SYSTEM, 1)
    assert user.start(*SYSTEM, 1, 2).num_cached == 0
    user.end(0)
    user.end(1)
    assert user.lengths == {0: 41, 1: 42}
    started = user.start(*SYSTEM, 1, 2, 3)
    assert (started.sequence_id, started.num_cached) == (1, 42)


def test_of_equal_matches_the_resident_used_last_goes_on() -> None:
    user = CellUser(RULES)
    user.start(*SYSTEM, 1)
    user.start(*SYSTEM, 2)
    user.end(1)
    user.end(0)
    assert user.start(*SYSTEM, 3).sequence_id == 0


def test_where_only_whole_runs_count_the_longest_of_them_goes_on() -> None:
    user = CellUser(ReuseRules(per_session=True, partial=False, regenerate=False))
    user.start(*SYSTEM[:10])
    user.start(*SYSTEM, 1)
    user.end(0)
    user.end(1)
    started = user.start(*SYSTEM, 2)
    assert (started.sequence_id, started.num_cached, started.source) == (0, 10, AdmissionSource.SESSION_REUSE)


def test_a_running_session_is_found_by_nobody_and_nobody_waits_for_it() -> None:
    user = CellUser(RULES)
    user.serve(*SYSTEM)
    user.ask(*SYSTEM, 1, 2)
    assert user.kv.lookup((*SYSTEM, 1, 2, 3), "a", 42).num_tokens == 0
    assert user.kv.foreseen((*SYSTEM, 1, 2, 3), "a", 42) == 0
    user.kv.publish(S0, 42)
    assert user.kv.lookup((*SYSTEM, 1, 2, 3), "a", 42).num_tokens == 0


def test_g50_residents_give_way_to_a_request_that_needs_their_cells() -> None:
    user = CellUser(RULES, num_cells=100, sequence_limit=100)
    for scope in "ab":
        user.serve(*SYSTEM, scope=scope)
    user.start(*range(50), scope="c")
    assert user.ops == (DropSequence(S0),)
    assert user.figures.evictions[EvictionCause.POOL] == 1
    assert user.figures.sessions.resident_slots_evicted_count == 1
