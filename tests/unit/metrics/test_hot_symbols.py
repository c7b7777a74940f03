from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.hot_symbols import Share, amdahl_bound, family_shares, ranked, top_share
from arriero.metrics.symbol_families import Family

shares = st.lists(st.floats(0.0, 0.01), max_size=100)


@pytest.mark.parametrize(("percent", "bound"), [(56.39, 2.293), (49.73, 1.989), (4.92, 1.052)])
def test_the_published_bounds_follow_from_the_published_shares(percent: float, bound: float) -> None:
    found = amdahl_bound(percent / 100)
    assert found is not None
    assert round(found, 3) == bound


def test_a_share_of_everything_has_no_bound() -> None:
    assert amdahl_bound(1.0) is None
    assert amdahl_bound(0.0) == 1.0


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_what_is_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="no share"):
        amdahl_bound(share)


def test_equal_shares_are_ordered_by_name() -> None:
    found = ranked([Share("b", "x", 0.2), Share("a", "y", 0.2), Share("a", "x", 0.2), Share("c", "x", 0.4)])
    assert [(each.rank, each.symbol, each.shared_object) for each in found] == [
        (1, "c", "x"), (2, "a", "x"), (3, "a", "y"), (4, "b", "x"),
    ]  # fmt: skip
    assert [round(each.cumulative, 12) for each in found] == [0.4, 0.6, 0.8, 1.0]


@given(shares)
def test_the_last_cumulative_share_is_the_sum_of_all(values: list[float]) -> None:
    found = ranked(Share(str(number), "x", value) for number, value in enumerate(values))
    assert top_share(values, len(values)) == pytest.approx(found[-1].cumulative if found else 0.0)
    assert all(one.share >= other.share for one, other in pairwise(found))


def test_families_are_summed_and_the_largest_comes_first() -> None:
    found = family_shares([(Family.ROPE, 0.1), (Family.MATRIX, 0.3), (Family.ROPE, 0.25), (Family.SOFTMAX, 0.3)])
    assert list(found) == [Family.ROPE, Family.MATRIX, Family.SOFTMAX]
    assert found[Family.ROPE] == pytest.approx(0.35)
