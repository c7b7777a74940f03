import pytest

from arriero.workload.catalogue import named_config, recipe
from arriero.workload.notes import Notes, as_metadata
from arriero.workload.summary import Bar, histogram, sharing_of, spread_of, summarise
from tests.unit.workload.samples import record


def test_percentiles_are_nearest_rank_and_p99_needs_a_hundred_values() -> None:
    few = spread_of([5, 1, 4, 2, 3])
    assert few is not None
    assert (few.p50, few.p90, few.p99, few.greatest, few.mean) == (3, 5, None, 5, 3.0)
    many = spread_of(range(1, 101))
    assert many is not None
    assert (many.p50, many.p90, many.p99) == (50, 90, 99)
    assert spread_of([]) is None


def test_what_is_undefined_is_none() -> None:
    empty = summarise([])
    assert (empty.num_requests, empty.span_us, empty.rate_per_s, empty.burstiness) == (0, None, None, None)
    assert empty.sharing.ratio is None
    together = summarise([record("a", 4), record("b", 4)])
    assert (together.span_us, together.rate_per_s, together.burstiness) == (0, None, None)


def test_figures_of_a_small_workload() -> None:
    summary = summarise([
        record("c", 30, tokens=[1, 2, 3, 9], prefix_group="g"),
        record("a", 0, tokens=[1, 2, 3]),
        record("b", 10, metadata=as_metadata(Notes(session_id="s", follows="a", think_time_us=1))),
    ])
    assert summary.rate_per_s == pytest.approx(2e6 / 30)
    assert summary.burstiness == pytest.approx(1 / 3)  # gaps 10 and 20
    assert (summary.num_groups, summary.num_sessions, summary.num_following) == (1, 1, 1)
    assert (summary.sharing.num_prompts, summary.sharing.prompt_tokens, summary.sharing.shared_tokens) == (2, 7, 3)


def test_sharing_looks_at_earlier_prompts_only_and_at_whole_tokens() -> None:
    long, short = [1, 2, 3, 4], [1, 2]
    assert sharing_of([record("a", tokens=long), record("b", tokens=short)]).shared_tokens == 2
    assert sharing_of([record("a", tokens=[0x0101]), record("b", tokens=[0x0201])]).shared_tokens == 0
    assert sharing_of([record("a", tokens=[]), record("b", tokens=[])]).ratio is None


def test_the_saturated_chat_shares_its_four_system_prompts() -> None:
    records = list(recipe(named_config("saturated_chat", 300)).make())
    assert sharing_of(records).shared_tokens == 96 * 296


def test_bars_double_their_width() -> None:
    assert histogram([0, 1, 2, 3, 9]) == [Bar(0, 0, 1), Bar(1, 1, 1), Bar(2, 3, 2), Bar(4, 7, 0), Bar(8, 15, 1)]
    assert histogram([]) == []
