"""When a running sequence moves to a lower id: what is saved in the steps to come, against what the move costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.core.errors import ConfigError
from arriero.core.ids import RequestId, SequenceId
from arriero.core.request import Request
from arriero.scheduler.holes import Closed, num_breaks
from arriero.scheduler.progress import Progress


def running(*ids: int, prompt: int = 10, to_go: int = 40) -> list[Progress]:
    """Requests that have computed their prompts, in the order of their admission."""
    made: list[Progress] = []
    for number, each in enumerate(ids):
        request = Request(request_id=RequestId(number), prompt=(1,) * prompt, max_tokens=to_go + 1, arrival_at=0)
        progress = Progress(request, (number,))
        progress.admit(SequenceId(each), number)
        progress.advance(progress.chunk(prompt))
        progress.append(5)
        made.append(progress)
    return made


def mover(*ids: int, prompt: int = 10, to_go: int = 40, rule: Closed | None = None) -> int | None:
    found = (Closed() if rule is None else rule).mover(running(*ids, prompt=prompt, to_go=to_go))
    return None if found is None else found.sequence_id


@pytest.mark.parametrize("ids", [(), (0,), (3,), (0, 1, 2), (2, 1, 3)])
def test_without_a_hole_nobody_moves(ids: tuple[int, ...]) -> None:
    assert mover(*ids) is None


def test_the_highest_id_moves_if_that_closes_a_break() -> None:
    assert mover(0, 7, 1) == 7
    assert mover(0, 1, 3) == 3


def test_the_first_of_several_moves_is_made_though_it_closes_nothing_alone() -> None:
    assert num_breaks([0, 1, 5, 6]) == num_breaks([0, 1, 2, 5]) == 1
    assert mover(0, 1, 5, 6) == 6


def test_a_move_that_costs_more_than_it_saves_is_not_made() -> None:
    assert mover(0, 2, prompt=5000, to_go=3) is None  # 15 ms and a little, against 3 times 5 ms
    assert mover(0, 2, prompt=4800, to_go=3) == 2
    assert mover(0, 2, prompt=5000, to_go=4) == 2


def test_one_who_is_at_its_end_does_not_move() -> None:
    assert mover(0, 2, to_go=0) is None


def test_a_prediction_does_not_look_beyond_its_horizon() -> None:
    assert mover(0, 2, prompt=8000, to_go=1000, rule=Closed(horizon=4)) is None
    assert mover(0, 2, prompt=8000, to_go=1000, rule=Closed(horizon=5)) == 2


def test_costs_that_decide_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 0 and the horizon at least 1"):
        Closed(break_cost=-1)
    with pytest.raises(ConfigError, match="horizon"):
        Closed(horizon=0)


@given(st.sets(st.integers(0, 40), min_size=1, max_size=12))
def test_free_moves_end_without_a_break(ids: set[int]) -> None:
    """Whoever is told to move goes to the lowest hole; in the end no hole is left that a break comes from."""
    rule = Closed(move_cost=0, token_cost=0)
    held = running(*sorted(ids))
    for _ in range(len(ids) + 1):
        found = rule.mover(held)
        if found is None:
            break
        in_use = {each.held_sequence for each in held}
        assert found.held_sequence == max(in_use)
        found.move(SequenceId(next(each for each in range(41) if each not in in_use)))
    assert num_breaks(sorted(each.held_sequence for each in held)) == 0


@given(st.sets(st.integers(0, 63), max_size=20))
def test_breaks_are_the_passes_beyond_the_first(ids: set[int]) -> None:
    groups = sum(each - 1 not in ids for each in ids)
    assert num_breaks(sorted(ids)) == max(0, groups - 1)
