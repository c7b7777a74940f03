"""What every implementation of `KvManager` passes.

`check_kv` runs all of `KV_CHECKS`, each with fresh managers; a test that wants a line for each takes the tuple. A
manager for the suite has at least 3 sequences of at least 48 positions each at once, and starts empty. It may share and
keep what it likes: the checks ask what holds either way.
"""

from collections.abc import Callable, Sequence
from typing import Final

from arriero.core.errors import InvariantViolation
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.kv.protocol import KvManager, PrefixHit, ReleaseCause, Shortage, Started
from arriero.kv.reuse import EvictionCause

MakeKv = Callable[[], KvManager]
KvCheck = Callable[[MakeKv], None]
PROMPT: Final = tuple(range(100, 132))
OTHER: Final = (*range(100, 116), *range(200, 216))
"""Has 16 tokens in common with `PROMPT`."""


def check_kv(make: MakeKv) -> None:
    """Run every check.

    Raises:
        AssertionError: what the manager does wrong.
    """
    for check in KV_CHECKS:
        check(make)


def admit(
    kv: KvManager, request_id: int, prompt: Sequence[TokenId], *, scope: str | None = "a", hit: PrefixHit | None = None
) -> SequenceId:
    """Start a request that fits, as a scheduler does, and let its prompt be computed."""
    found = kv.lookup(prompt, scope, len(prompt) - 1) if hit is None else hit
    started = kv.start(RequestId(request_id), len(prompt), 0, found)
    assert isinstance(started, Started), f"{len(prompt)} tokens do not fit: {started}"
    assert started.num_cached <= found.num_tokens < len(prompt)
    assert (started.prefix is None) == (started.num_cached == 0)
    kv.take_ops()
    kv.promise(started.sequence_id, len(prompt))
    kv.publish(started.sequence_id, len(prompt))
    return started.sequence_id


def adds_up(kv: KvManager) -> None:
    """Every cell is in use by somebody who runs, kept, or free."""
    kv.check()
    usage = kv.usage()
    assert usage.active_cells + usage.retained_cells + usage.free_cells == usage.num_cells
    assert usage.active_cells <= usage.held_tokens
    assert usage.sequences_retained == sum(not run.is_saved for run in kv.retained())


def starts_empty(make: MakeKv) -> None:
    """Nothing is held, kept, ordered or found."""
    kv = make()
    adds_up(kv)
    usage = kv.usage()
    assert (usage.active_cells, usage.held_tokens, usage.sequences_held, usage.sequences_retained) == (0, 0, 0, 0)
    assert (kv.take_ops(), kv.retained(), kv.is_resting) == ((), (), False)
    assert kv.lookup(PROMPT, "a", len(PROMPT)).num_tokens == kv.foreseen(PROMPT, "a", len(PROMPT)) == 0


def a_start_takes_places_and_a_release_gives_them_back(make: MakeKv) -> None:
    """What runs holds its positions, and nothing of it is held afterwards."""
    kv = make()
    first, second = admit(kv, 1, PROMPT), admit(kv, 2, OTHER, scope="b")
    assert first != second
    assert kv.usage().held_tokens == len(PROMPT) + len(OTHER)
    assert kv.usage().sequences_held == 2
    adds_up(kv)
    kv.release(first, ReleaseCause.COMPLETED, 0)
    assert kv.usage().held_tokens == len(OTHER)
    kv.release(second, ReleaseCause.COMPLETED, 0)
    assert (kv.usage().held_tokens, kv.usage().active_cells, kv.usage().sequences_held) == (0, 0, 0)
    adds_up(kv)


def a_shortage_changes_nothing(make: MakeKv) -> None:
    """Also where runs would have to go."""
    kv = make()
    kv.release(admit(kv, 1, PROMPT), ReleaseCause.COMPLETED, 0, PROMPT)
    kv.take_ops()
    for request_id in range(2, 2000):
        hit = kv.lookup(OTHER, "a", len(OTHER) - 1)
        before = kv.usage(), kv.retained()
        started = kv.start(RequestId(request_id), 48, 4, hit)
        if isinstance(started, Shortage):
            assert (kv.usage(), kv.retained()) == before
            assert kv.take_ops() == ()
            adds_up(kv)
            break
        kv.take_ops()


def growing_together_is_growing_in_turn(make: MakeKv) -> None:
    """Three ways to the same books."""
    managers = [make() for _ in range(3)]
    groups = [[admit(kv, each, (each, *PROMPT[: 8 + each])) for each in range(1, 4)] for kv in managers]
    assert groups[0] == groups[1] == groups[2]
    steps = min(5, managers[0].steps_ahead(groups[0]))
    managers[0].grow_together(groups[0], steps)
    for _ in range(steps):
        assert managers[1].grow_each(groups[1])
        for sequence_id in groups[2]:
            assert managers[2].grow(sequence_id, 1) is None
    assert managers[0].usage() == managers[1].usage() == managers[2].usage()


def steps_ahead_lose_nothing(make: MakeKv) -> None:
    """So many steps succeed, and nothing that is kept goes for them."""
    kv = make()
    kv.release(admit(kv, 1, PROMPT), ReleaseCause.COMPLETED, 0, PROMPT)
    group = [admit(kv, each, (each, *OTHER)) for each in (2, 3)]
    before = kv.retained(), kv.take_ops()
    for _ in range(min(40, kv.steps_ahead(group))):
        assert kv.grow_each(group)
    assert (kv.retained(), kv.take_ops()) == before
    assert kv.steps_ahead([]) >= 0
    adds_up(kv)


def a_rewind_gives_back_the_end(make: MakeKv) -> None:
    """And nothing where the sequence is shorter already."""
    kv = make()
    sequence_id = admit(kv, 1, PROMPT)
    kv.grow(sequence_id, 6)
    kv.rewind(sequence_id, len(PROMPT) + 2)
    kv.rewind(sequence_id, len(PROMPT) + 4)
    assert kv.usage().held_tokens == len(PROMPT) + 2
    adds_up(kv)


def a_cancelled_sequence_rests_at_most_until_the_next_step(make: MakeKv) -> None:
    """Then everything is as if it had completed."""
    kv = make()
    kv.release(admit(kv, 1, PROMPT), ReleaseCause.CANCELLED, 0, PROMPT)
    kv.begin_step(1)
    assert not kv.is_resting
    for each in (2, 3, 4):
        admit(kv, each, (each, *PROMPT))
    adds_up(kv)


def a_lookup_changes_nothing(make: MakeKv) -> None:
    """However often it is asked, and whatever is there."""
    kv = make()
    admit(kv, 1, PROMPT)
    kv.release(admit(kv, 2, OTHER), ReleaseCause.COMPLETED, 0, OTHER)
    kv.take_ops()
    before = kv.usage(), kv.retained(), kv.reuse_figures()
    answers = {(kv.lookup(OTHER, "a", 31).num_tokens, kv.foreseen(OTHER, "a", 31)) for _ in range(3)}
    assert len(answers) == 1
    assert (kv.usage(), kv.retained(), kv.reuse_figures(), kv.take_ops()) == (*before, ())


def nothing_is_found_across_scopes(make: MakeKv) -> None:
    """Neither while a prompt is computed, nor afterwards; and without a scope nothing at all."""
    kv = make()
    sequence_id = admit(kv, 1, PROMPT)
    for scope in ("b", None):
        assert kv.lookup(PROMPT, scope, len(PROMPT)).num_tokens == kv.foreseen(PROMPT, scope, len(PROMPT)) == 0
    kv.release(sequence_id, ReleaseCause.COMPLETED, 0, PROMPT)
    for scope in ("b", None):
        assert kv.lookup(PROMPT, scope, len(PROMPT)).num_tokens == 0


def no_more_is_found_than_is_in_common(make: MakeKv) -> None:
    """Nor more than was asked for."""
    kv = make()
    kv.release(admit(kv, 1, PROMPT), ReleaseCause.COMPLETED, 0, PROMPT)
    for limit in range(len(OTHER) + 1):
        hit = kv.lookup(OTHER, "a", limit)
        assert hit.num_tokens <= min(limit, 16)
        assert hit.num_matched <= 16
    assert kv.lookup((1, 2, 3), "a", 3).num_tokens == 0


def what_is_forgotten_is_not_found(make: MakeKv) -> None:
    """A release without tokens leaves nothing that a manager of runs would find."""
    kv = make()
    kv.release(admit(kv, 1, PROMPT), ReleaseCause.PREEMPTED, 0)
    assert kv.retained() == ()
    adds_up(kv)


def what_is_kept_never_keeps_a_request_out(make: MakeKv) -> None:
    """Where nobody runs, what fits alone is started."""
    kv = make()
    for each in range(1, 9):
        prompt = tuple(range(1000 * each, 1000 * each + 40))
        kv.release(admit(kv, each, prompt), ReleaseCause.COMPLETED, 0, prompt)
        adds_up(kv)
    kv.begin_step(1)
    whole = min(kv.sequence_limit, 10_000)
    assert isinstance(kv.start(RequestId(99), whole, 8), Started)
    adds_up(kv)


def a_clearing_leaves_no_run(make: MakeKv) -> None:
    """Runs of those who run stay, as they are theirs."""
    kv = make()
    sequence_id = admit(kv, 1, PROMPT)
    kv.release(admit(kv, 2, OTHER), ReleaseCause.COMPLETED, 0, OTHER)
    kv.save_retained()
    kv.clear_retained(EvictionCause.ERASED)
    assert kv.retained() == ()
    assert (kv.usage().sequences_held, kv.usage().retained_cells) == (1, 0)
    kv.release(sequence_id, ReleaseCause.COMPLETED, 0, PROMPT)
    adds_up(kv)


def a_move_keeps_everything(make: MakeKv) -> None:
    """The sequence is the same under its new id; or it stays where it is."""
    kv = make()
    first, second = admit(kv, 1, PROMPT), admit(kv, 2, OTHER, scope="b")
    kv.release(first, ReleaseCause.COMPLETED, 0)
    kv.take_ops()
    before = kv.usage().held_tokens
    to = kv.move_down(second)
    assert (to is None) == (kv.take_ops() == ())
    assert to is None or to < second
    assert kv.usage().held_tokens == before
    assert kv.grow(second if to is None else to, 1) is None
    adds_up(kv)


def what_yields_is_kept_for_its_request_alone(make: MakeKv) -> None:
    """Nobody finds it, no clearing erases it, and its request gets it back; or nothing is kept at all."""
    kv = make()
    sequence_id = admit(kv, 1, PROMPT)
    kept = kv.swaps.save(RequestId(1), sequence_id, len(PROMPT))
    kv.release(sequence_id, ReleaseCause.PREEMPTED, 0)
    kv.clear_retained(EvictionCause.ERASED)
    kv.take_ops()
    expected = len(PROMPT) if kept else 0
    assert kv.swaps.length(RequestId(1)) == kv.usage().swapped_tokens == expected
    assert not kept or kv.lookup(PROMPT, "a", len(PROMPT)).num_tokens == 0
    assert kv.swaps.length(RequestId(2)) == 0
    adds_up(kv)
    started = kv.start(RequestId(1), len(PROMPT) + 1, 0, kv.lookup(PROMPT, "a", len(PROMPT)))
    assert isinstance(started, Started)
    assert started.num_swapped_in == expected
    assert kv.swaps.length(RequestId(1)) == kv.usage().swapped_tokens == 0
    assert kv.usage().held_tokens == len(PROMPT) + 1
    adds_up(kv)


def what_is_kept_goes_with_its_request(make: MakeKv) -> None:
    """Whoever forgets twice, or what never was, changes nothing."""
    kv = make()
    sequence_id = admit(kv, 1, PROMPT)
    kept = kv.swaps.save(RequestId(1), sequence_id, len(PROMPT))
    kv.release(sequence_id, ReleaseCause.PREEMPTED, 0)
    kv.take_ops()
    kv.swaps.forget(RequestId(2))
    kv.swaps.forget(RequestId(1))
    assert len(kv.take_ops()) == int(kept)
    kv.swaps.forget(RequestId(1))
    assert (kv.take_ops(), kv.usage().swapped_tokens) == ((), 0)
    adds_up(kv)


def ops_are_handed_out_once(make: MakeKv) -> None:
    """Whatever was ordered."""
    kv = make()
    kv.release(admit(kv, 1, PROMPT), ReleaseCause.COMPLETED, 0, PROMPT)
    kv.take_ops()
    kv.clear_retained(EvictionCause.TEARDOWN)
    kv.take_ops()
    assert kv.take_ops() == ()


def a_sequence_that_nobody_holds_is_refused(make: MakeKv) -> None:
    """And nothing changes by it."""
    kv = make()
    kv.release(admit(kv, 1, PROMPT), ReleaseCause.COMPLETED, 0, PROMPT)
    before = kv.usage()
    nobody = SequenceId(2)
    verbs: tuple[Callable[[], object], ...] = (
        lambda: kv.grow(nobody, 1),
        lambda: kv.release(nobody, ReleaseCause.COMPLETED, 0),
    )
    for verb in verbs:
        try:
            verb()
        except InvariantViolation:
            continue
        message = f"sequence {nobody}, which nobody holds, was changed"
        raise AssertionError(message)
    assert kv.usage() == before


KV_CHECKS: Final[tuple[KvCheck, ...]] = (
    starts_empty,
    a_start_takes_places_and_a_release_gives_them_back,
    a_shortage_changes_nothing,
    growing_together_is_growing_in_turn,
    steps_ahead_lose_nothing,
    a_rewind_gives_back_the_end,
    a_cancelled_sequence_rests_at_most_until_the_next_step,
    a_lookup_changes_nothing,
    nothing_is_found_across_scopes,
    no_more_is_found_than_is_in_common,
    what_is_forgotten_is_not_found,
    what_is_kept_never_keeps_a_request_out,
    a_clearing_leaves_no_run,
    a_move_keeps_everything,
    what_yields_is_kept_for_its_request_alone,
    what_is_kept_goes_with_its_request,
    ops_are_handed_out_once,
    a_sequence_that_nobody_holds_is_refused,
)
