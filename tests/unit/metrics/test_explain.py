"""The fold, told step by step what happens; 10 ms and so many rows take what the test says."""

from collections.abc import Sequence

import pytest

from arriero.metrics.explain import Explainer, Step
from arriero.metrics.explain_ledger import MOST_GAPS, MOST_NAMED, Blame, Ledger
from arriero.metrics.explain_parts import (
    NOTHING,
    OTHERS_PREFILL,
    PARTS,
    QUEUE,
    Ending,
    Explanation,
    Part,
    Share,
    Split,
    State,
)
from arriero.metrics.explain_shares import Work

DONE = Ending(State.LENGTH)


class Run:
    """A run whose steps take as long as they are told; `told` are the requests that have ended."""

    def __init__(self) -> None:
        self.told: list[Explanation] = []
        self.fold = Explainer(self.told.append)
        self.now = 0

    def idle(self, time: int) -> None:
        """Go on to the beginning of a step so much later."""
        self.now += time
        self.fold.idle(self.now)

    def start(self, request_id: int, sequence_id: int, *, cached: int = 0) -> None:
        """A request comes and starts at once."""
        self.fold.came(request_id, self.now, 20)
        self.fold.started(request_id, sequence_id, cached)

    def step(
        self,
        time: int,
        *,
        decodes: Sequence[int] = (),
        prompts: Sequence[tuple[int, int, int]] = (),
        host: int = 0,
        is_redone: bool = False,
        followers: Sequence[int] = (),
    ) -> None:
        """Rows run: decode rows of some, and (request, first position, rows) of others."""
        rows = [Work(each, each, 50, 1, wants_logits=True, is_decode=True) for each in decodes]
        rows += [Work(each, each, at, number, wants_logits=False, is_decode=False) for each, at, number in prompts]
        self.now += time
        self.fold.computed(Step(self.now, time - host, set(decodes), rows, is_redone, followers))
        if not is_redone:
            self.fold.tokens(decodes)

    def end(self, request_id: int, ending: Ending = DONE) -> Explanation:
        self.fold.ended(request_id, ending)
        return self.told[-1]


def parts(split: Split) -> dict[str, int]:
    return split.named


def test_a_request_alone_waits_computes_its_prompt_and_decodes() -> None:
    run = Run()
    run.idle(100)
    run.fold.came(1, 40, 20)
    run.fold.started(1, 0, 0)
    run.step(50, prompts=[(1, 0, 20)], host=10)
    run.fold.token(1)
    run.idle(5)
    run.step(30, decodes=[1], host=10)
    each = run.end(1)
    assert parts(each.until_first) == {"queue": 60, "own_prefill": 40, "host": 10}
    assert parts(each.between) == {"decode": 20, "host": 15}
    assert each.closing == NOTHING
    assert (each.ttft, each.e2e, each.total) == (110, 145, 145)
    assert each.moments.started == 100
    assert each.gaps == ()


def test_a_long_prompt_is_named_by_everybody_who_held_a_slot() -> None:
    run = Run()
    run.idle(10)
    for number in (1, 2):
        run.start(number, number)
    run.step(20, prompts=[(1, 0, 20)])  # 2 holds a slot, and the budget left it nothing
    run.fold.token(1)
    run.start(9, 9)
    run.step(44, decodes=[1], prompts=[(2, 0, 3), (9, 0, 40)])
    assert run.end(1).others == (Share(9, 40), Share(2, 3))
    two = run.end(2)
    assert two.others == (Share(9, 40), Share(1, 20))
    assert parts(two.split) == {"own_prefill": 3, "others_prefill": 60, "others_decode": 1}
    assert run.end(9).others == (Share(2, 3),)


def test_a_gap_with_something_in_it_is_kept_with_its_parts() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    run.step(10, prompts=[(1, 0, 20)])
    run.fold.token(1)
    run.step(10, decodes=[1])
    run.start(2, 2)
    run.step(42, decodes=[1], prompts=[(2, 0, 41)])
    run.step(10, decodes=[1])
    each = run.end(1)
    (gap,) = each.gaps
    assert (gap.index, gap.at, gap.others) == (2, 62, (Share(2, 41),))
    assert parts(gap.split) == {"decode": 1, "others_prefill": 41}


def test_the_longest_gaps_are_kept_in_the_order_of_their_tokens() -> None:
    ledger = Ledger()
    ledger.token(0, 0)
    for index in range(1, 3 * MOST_GAPS):
        ledger.blame(7, 100 + index % 5)
        ledger.token(index, index)
    kept = ledger.gaps()
    assert [gap.index for gap in kept] == sorted(gap.index for gap in kept)
    lengths = sorted((100 + index % 5 for index in range(1, 3 * MOST_GAPS)), reverse=True)
    assert sorted((gap.split.total for gap in kept), reverse=True) == lengths[:MOST_GAPS]


def test_a_call_that_gave_nothing_is_redone_for_all_who_were_there() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    run.start(2, 2)
    run.step(70, prompts=[(1, 0, 20), (2, 0, 20)], host=20, is_redone=True)
    run.step(40, prompts=[(1, 0, 20), (2, 0, 20)])
    assert parts(run.end(1).split) == {"own_prefill": 20, "others_prefill": 20, "redone": 50, "host": 20}
    assert parts(run.end(2).split) == {"own_prefill": 20, "others_prefill": 20, "redone": 50, "host": 20}


def test_who_was_preempted_waits_again_and_computes_some_of_it_twice() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    run.step(20, prompts=[(1, 0, 20)])
    run.fold.token(1)
    run.fold.put_back(1, 1, 15)
    run.idle(100)
    run.fold.started(1, 1, 5)
    run.step(16, prompts=[(1, 5, 16)])  # positions 5 to 14 were there before
    run.fold.token(1)
    each = run.end(1)
    assert parts(each.split) == {"own_prefill": 20 + 6, "preempted": 100, "recomputed": 10}
    assert each.num_preemptions == 1
    assert each.cached_tokens == 0
    assert [parts(gap.split) for gap in each.gaps] == [{"own_prefill": 6, "preempted": 100, "recomputed": 10}]


def test_the_host_s_share_of_a_step_is_swapping_for_whom_it_swaps() -> None:
    run = Run()
    run.idle(0)
    for number in (1, 2):
        run.start(number, number)
    run.step(40, prompts=[(1, 0, 20), (2, 0, 20)])
    run.idle(0)
    run.fold.origins.saved(2, 77)
    run.fold.put_back(2, 2, 20)
    run.step(30, decodes=[1], host=12)
    run.idle(50)
    run.fold.origins.restored(3, 77)
    run.fold.started(2, 3, 20)
    run.step(30, decodes=[1, 2], host=9)
    one, two = run.end(1), run.end(2)
    assert parts(one.split) == {
        "own_prefill": 20, "others_prefill": 20, "decode": 18 + 21, "host": 12 + 50 + 9
    }  # fmt: skip
    assert parts(two.split) == {
        "own_prefill": 20, "others_prefill": 20, "decode": 21, "preempted": 18 + 50, "swap": 12 + 9
    }  # fmt: skip


def test_a_restored_prefix_of_somebody_else_is_no_swap() -> None:
    run = Run()
    run.idle(0)
    run.fold.origins.restored(1, 77)
    run.start(1, 1, cached=10)
    run.step(30, prompts=[(1, 10, 10)], host=12)
    assert parts(run.end(1).split) == {"own_prefill": 18, "host": 12}


def test_a_follower_names_its_leader() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    run.fold.came(2, 0, 70)
    run.step(32, prompts=[(1, 0, 32)], followers=[2])
    run.idle(1)
    run.step(32, prompts=[(1, 32, 32)], followers=[2])
    run.idle(1)
    run.step(32, prompts=[(1, 64, 32)])  # its own end, which nobody waits for
    run.idle(4)
    run.fold.origins.copied(1, 2)
    run.fold.started(2, 2, 64)
    run.step(6, prompts=[(2, 64, 6)])
    each = run.end(2)
    assert each.leaders == (Share(1, 32 + 1 + 32),)
    assert parts(each.split) == {"prefix": 65, "queue": 1 + 32 + 4, "own_prefill": 6}
    assert each.cached_tokens == 64


def test_a_leader_whose_prompt_is_under_way_is_waited_for_in_steps_without_a_row_of_it_too() -> None:
    run = Run()
    run.idle(0)
    run.start(9, 9)
    run.step(9, prompts=[(9, 0, 9)])
    run.fold.token(9)
    run.start(1, 1)
    run.fold.came(2, 9, 70)
    run.step(32, prompts=[(1, 0, 32)], followers=[2])
    run.step(10, decodes=[9], followers=[2])
    run.step(32, prompts=[(1, 32, 32)], followers=[2])
    run.fold.origins.copied(1, 2)
    run.fold.started(2, 2, 64)
    assert run.end(2).leaders == (Share(1, 74),)


def test_a_follower_that_never_started_waited_for_a_prefix_all_the_same() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    run.fold.came(2, 0, 70)
    run.step(32, prompts=[(1, 0, 32)], followers=[2])
    run.idle(3)
    alive = run.fold.find(2)
    assert alive is not None
    assert (parts(alive.split), alive.leaders) == ({"prefix": 32, "queue": 3}, (Share(None, 32),))
    each = run.end(2, Ending(State.CANCELLED, "timeout"))
    assert (parts(each.split), each.leaders) == ({"prefix": 32, "queue": 3}, (Share(None, 32),))


def test_who_takes_over_from_a_cancelled_leader_is_named_beside_it() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    for number in (2, 3):
        run.fold.came(number, 0, 64)
    run.step(32, prompts=[(1, 0, 32)], followers=[2, 3])
    run.end(1, Ending(State.CANCELLED, "user"))
    run.fold.origins.copied(1, 2)
    run.fold.started(2, 2, 32)
    run.step(40, prompts=[(2, 32, 40)], followers=[3])
    run.fold.origins.copied(2, 3)
    run.fold.started(3, 3, 60)
    assert run.end(2).leaders == (Share(1, 32),)
    assert run.end(3).leaders == (Share(2, 40), Share(1, 32))


@pytest.mark.parametrize("starts", [True, False])
def test_a_request_that_is_cancelled_says_who_asked_and_what_it_did_until_then(starts: bool) -> None:  # noqa: FBT001 - a table
    run = Run()
    run.idle(10)
    run.fold.came(1, 4, 20)
    if starts:
        run.fold.started(1, 1, 0)
    run.idle(30)
    each = run.end(1, Ending(State.CANCELLED, "disconnect"))
    assert each.ending == (State.CANCELLED, "disconnect")
    assert parts(each.split) == ({"queue": 6, "host": 30} if starts else {"queue": 36})
    assert (each.ttft, each.e2e) == (None, 36)


def test_a_refused_request_has_waited_until_it_was_refused() -> None:
    run = Run()
    run.idle(10)
    run.start(5, 0)
    run.fold.refused(5, 3, 900, "ContextTooLong")  # the number of one that is alive
    assert run.told[0].ending == (State.REFUSED, "ContextTooLong")
    assert parts(run.told[0].split) == {"queue": 7}
    assert run.fold.find(5) is not None


def test_who_is_alive_is_explained_up_to_the_last_boundary_and_goes_on() -> None:
    run = Run()
    run.idle(10)
    run.start(1, 1)
    run.fold.came(2, 8, 20)
    run.step(20, prompts=[(1, 0, 20)])
    running, waiting = run.fold.find(1), run.fold.find(2)
    assert running is not None
    assert waiting is not None
    assert (running.ending.state, parts(running.split), running.e2e) == (State.RUNNING, {"own_prefill": 20}, None)
    assert (waiting.ending.state, parts(waiting.split), waiting.total) == (State.WAITING, {"queue": 22}, 22)
    run.fold.token(1)
    run.step(5, decodes=[1])
    assert parts(run.end(1).split) == {"own_prefill": 20, "decode": 5}
    assert run.fold.find(1) is None


def test_a_token_that_ends_the_answer_untold_makes_its_step_the_closing_one() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    run.step(20, prompts=[(1, 0, 20)])
    run.fold.token(1)
    run.now += 7
    run.fold.computed(Step(run.now, 7, {1}))
    each = run.end(1, Ending(State.STOP))
    assert parts(each.closing) == {"decode": 7}
    assert (each.ttft, each.e2e, each.total) == (20, 20, 27)


def test_a_step_cannot_compute_for_longer_than_it_took() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    run.fold.computed(Step(20, 25, {1}))
    assert parts(run.end(1).split) == {"decode": 20}


def test_the_end_of_a_run_leaves_nobody_untold() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    run.step(20, prompts=[(1, 0, 20)])
    run.fold.came(2, 20, 5)
    run.fold.cut()
    assert [(each.request_id, each.ending.state) for each in run.told] == [(1, State.UNFINISHED), (2, State.UNFINISHED)]
    assert run.told[0].e2e is None
    assert len(run.fold) == 0


def test_where_records_are_missing_nothing_is_told_of_those_who_were_alive() -> None:
    run = Run()
    run.idle(0)
    run.start(1, 1)
    assert run.fold.lose_track() == 1
    run.idle(500)
    run.fold.token(1)
    run.fold.put_back(1, 1, 3)
    run.fold.started(1, 1, 0)
    run.fold.ended(1, DONE)
    assert run.told == []
    run.start(2, 2)
    run.step(30, decodes=[1], prompts=[(2, 0, 29)])
    assert parts(run.end(2).split) == {"own_prefill": 29, "others_decode": 1}


def test_many_to_blame_are_bounded_and_none_of_their_time_is_lost() -> None:
    blame = Blame()
    for number in range(10 * MOST_NAMED):
        blame.add(number, 1 + number % 3)
    blame.add(3, 1000)
    shares = blame.shares()
    assert len(shares) <= 2 * MOST_NAMED
    assert shares[0].request_id == 3
    assert shares[-1].request_id is None
    assert sum(share.time for share in shares) == 1000 + sum(1 + number % 3 for number in range(10 * MOST_NAMED))


def test_a_ledger_names_at_most_so_many_and_the_rest_together() -> None:
    ledger = Ledger()
    for number in range(2 * MOST_NAMED):
        ledger.blame(number, number + 1)
    others = ledger.others()
    assert len(others) == MOST_NAMED + 1
    assert others[0] == Share(2 * MOST_NAMED - 1, 2 * MOST_NAMED)
    assert sum(share.time for share in others) == ledger.spent[OTHERS_PREFILL]


def test_the_places_of_parts_are_their_order() -> None:
    assert PARTS[QUEUE] is Part.QUEUE
    assert Split.only(OTHERS_PREFILL, 5).of(Part.OTHERS_PREFILL) == 5
    assert Split.only(OTHERS_PREFILL, 5).named == {"others_prefill": 5}
