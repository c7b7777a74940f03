"""The composed generator: what is drawn, in which order, and what it says about conversations and closed loops."""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest

from arriero.workload.catalogue import recipe
from arriero.workload.notes import check_notes, notes_of
from arriero.workload.records import WorkloadRecord, numbered
from tests.unit.workload.samples import composed

CONSTANT_9 = {"distribution": "constant", "value": 9}
SESSIONS = {
    "turns": {"distribution": "uniform", "low": 1, "high": 6},
    "think_time_us": {"distribution": "uniform", "low": 0, "high": 200_000},
    "answer_us_per_token": 100,
}
FAMILIES = {"count": 3, "prefix_length": {"distribution": "uniform", "low": 20, "high": 40}, "popularity_exponent": 1.0}
LOOP = {"mode": "closed_loop", "num_clients": 3, "think_time_us": {"distribution": "uniform", "low": 1, "high": 99}}
SHAPES: list[dict[str, Any]] = [
    {},
    {"tokens": None},
    {"families": FAMILIES},
    {"sessions": SESSIONS},
    {"sessions": SESSIONS, "tokens": None},
    {"sessions": {**SESSIONS, "pacing": "answer"}, "families": FAMILIES},
    {"arrival": LOOP},
    {"arrival": {"mode": "gamma", "rate_per_s": 50, "burstiness": 4}, "families": FAMILIES, "sessions": SESSIONS},
    {"arrival": {"mode": "burst", "burst_size": 7, "interval_us": 1000}, "sessions": SESSIONS},
]


def _make(**changes: object) -> list[WorkloadRecord]:
    return list(recipe(composed(**changes)).make())


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_fewer_requests_are_the_beginning_of_more(shape: int) -> None:
    longer = _make(**SHAPES[shape], request_count=150)
    assert len(longer) == 150
    for count in (0, 1, 40, 149):
        assert _make(**SHAPES[shape], request_count=count) == longer[:count]
    assert _make(**SHAPES[shape], request_count=150, seed=6) != longer


@pytest.mark.parametrize("shape", [shape for shape in range(len(SHAPES)) if SHAPES[shape].get("arrival") is not LOOP])
def test_open_arrivals_come_out_in_the_order_of_their_numbers(shape: int) -> None:
    records = _make(**SHAPES[shape])
    assert records == numbered(records)


@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_every_shape_has_lengths_that_fit_its_prompts_and_notes_that_hold(shape: int) -> None:
    records = _make(**SHAPES[shape])
    check_notes(records)
    for each in records:
        if SHAPES[shape].get("tokens", 1) is None:
            assert each.prompt_tokens is None
        else:
            assert each.prompt_tokens is not None
            assert len(each.prompt_tokens) == each.prompt_token_count
            assert all(100 <= token < 5100 for token in each.prompt_tokens)


def test_another_arrival_process_leaves_the_requests_as_they_are() -> None:
    def bodies(records: list[WorkloadRecord]) -> list[tuple[object, ...]]:
        return [(each.prompt_tokens, each.max_new_tokens) for each in records]

    assert bodies(_make()) == bodies(_make(arrival={"mode": "constant", "interval_us": 5}))


def test_families_share_their_beginning_and_follow_their_popularity() -> None:
    records = _make(families=FAMILIES, request_count=400)
    counts = Counter(each.prefix_group for each in records)
    assert counts["family-0000"] > counts["family-0001"] > counts["family-0002"] > 0
    beginnings: dict[str | None, set[tuple[int, ...]]] = defaultdict(set)
    for each in records:
        assert each.prompt_tokens is not None
        beginnings[each.prefix_group].add(tuple(each.prompt_tokens[:20]))
    assert all(len(found) == 1 for found in beginnings.values())
    assert len(set.union(*beginnings.values())) == 3


def _conversations(records: list[WorkloadRecord]) -> dict[str | None, list[WorkloadRecord]]:
    found: dict[str | None, list[WorkloadRecord]] = defaultdict(list)
    for each in records:
        found[notes_of(each).session_id].append(each)
    return found


def test_each_turn_extends_the_one_before_by_its_answer_and_fresh_tokens() -> None:
    conversations = _conversations(_make(sessions=SESSIONS))
    assert any(len(turns) > 2 for turns in conversations.values())
    for turns in conversations.values():
        assert [notes_of(each).turn for each in turns] == list(range(len(turns)))
        for before, after in pairwise(turns):
            assert before.prompt_tokens is not None
            assert after.prompt_tokens is not None
            assert after.prompt_tokens[: before.prompt_token_count] == before.prompt_tokens
            fresh = notes_of(after).fresh_token_count
            assert fresh is not None
            assert after.prompt_token_count == before.prompt_token_count + before.max_new_tokens + fresh
            assert after.arrival_time_us >= before.arrival_time_us + 100 * before.max_new_tokens


def test_a_conversation_ends_before_a_prompt_grows_too_long() -> None:
    free = _conversations(_make(sessions=SESSIONS, request_count=150))
    bounded = _make(sessions={**SESSIONS, "prompt_limit": 24}, request_count=150)
    assert max(each.prompt_token_count for turns in free.values() for each in turns) > 24
    assert max(each.prompt_token_count for each in bounded) <= 24


def test_a_turn_paced_by_the_answer_names_the_turn_that_it_follows() -> None:
    for turns in _conversations(_make(sessions={**SESSIONS, "pacing": "answer"})).values():
        assert notes_of(turns[0]).follows is None
        for before, after in pairwise(turns):
            notes = notes_of(after)
            assert notes.follows == before.request_id
            nominal_end = before.arrival_time_us + 100 * before.max_new_tokens
            assert notes.think_time_us == after.arrival_time_us - nominal_end


def test_in_a_closed_loop_each_request_follows_the_one_before_of_its_client() -> None:
    records = _make(arrival=LOOP, request_count=20)
    for index, each in enumerate(records):
        notes = notes_of(each)
        assert notes.client == index % 3
        if index < 3:
            assert (notes.follows, each.arrival_time_us) == (None, 0)
        else:
            before = records[index - 3]
            assert notes.follows == before.request_id
            assert each.arrival_time_us - before.arrival_time_us == notes.think_time_us


def test_a_constant_length_is_that_length() -> None:
    records = _make(prompt_length=CONSTANT_9, output_length=CONSTANT_9, tokens=None)
    assert {(each.prompt_token_count, each.max_new_tokens) for each in records} == {(9, 9)}
