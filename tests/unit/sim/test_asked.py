from dataclasses import replace

import pytest

from arriero.core.errors import ConfigError
from arriero.core.request import BlankTokens
from arriero.sim.asked import asked_of, at_once, at_rate, by_chance, own_rate
from arriero.workload.notes import Notes, as_metadata
from arriero.workload.records import WorkloadClass, WorkloadRecord
from arriero.workload.tokens import PackedTokens
from tests.unit.sim.whatif_rig import asked


def record(name: str, at: int, prompt: int | list[int], output: int, **more: object) -> WorkloadRecord:
    tokens = prompt if isinstance(prompt, list) else None
    return WorkloadRecord(
        request_id=name, arrival_time_us=at, prompt_token_count=len(prompt) if isinstance(prompt, list) else prompt,
        max_new_tokens=output, workload_class=WorkloadClass.CHAT,
        prompt_tokens=None if tokens is None else PackedTokens(tokens), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_requests_are_numbered_by_arrival_and_keep_their_names() -> None:
    found = asked_of([record("late", 90, 5, 2), record("b", 10, 6, 3), record("a", 10, 7, 4)], with_tokens=False)
    assert [(each.name, each.request.request_id, each.request.arrival_at) for each in found] == [
        ("a", 1, 10), ("b", 2, 10), ("late", 3, 90),
    ]  # fmt: skip
    assert [(len(each.request.prompt), each.request.max_tokens) for each in found] == [(7, 4), (6, 3), (5, 2)]


def test_tokens_are_kept_only_where_a_cache_looks_at_them() -> None:
    records = [record("a", 0, [4, 5, 6], 2, prefix_group="tools"), record("b", 1, 3, 2)]
    exact, lengths = asked_of(records, with_tokens=True), asked_of(records, with_tokens=False)
    assert exact[0].request.prompt == (4, 5, 6)
    assert (exact[0].request.cache_scope, exact[1].request.cache_scope) == ("", None)
    assert exact[0].request.tenant == "tools"
    assert all(isinstance(each.request.prompt, BlankTokens) for each in (*lengths, exact[1]))


def test_who_goes_first_is_what_the_workload_says() -> None:
    notes = as_metadata(Notes(priority=-3, tenant="b"))
    records = [
        record("a", 10, 5, 2, deadline_us=70, prefix_group="tools", metadata=notes),
        record("b", 20, 5, 2, prefix_group="tools"),
    ]
    first, second = (each.request for each in asked_of(records, with_tokens=False))
    assert (first.priority, first.deadline_at, first.tenant) == (-3, 80, "b")
    assert (second.priority, second.deadline_at, second.tenant) == (0, None, "tools")


def test_a_turn_follows_the_one_before_and_repeats_its_answer() -> None:
    turns = [
        record("t0", 0, [1, 2], 3, metadata=as_metadata(Notes(session_id="s", turn=0))),
        record(
            "t1", 50, [1, 2, 7, 8, 9, 4], 3,
            metadata=as_metadata(Notes(session_id="s", turn=1, follows="t0", think_time_us=20)),
        ),
    ]  # fmt: skip
    first, second = asked_of(turns, with_tokens=True)
    assert first.answer == (7, 8, 9)
    assert (second.follows, second.think_us, second.turn) == (1, 20, 1)


def test_a_rate_stretches_every_gap_alike() -> None:
    work = asked((5_000_000, 4, 2), (6_000_000, 4, 2), (7_000_000, 4, 2))
    assert own_rate(work) == pytest.approx(1.0)
    faster = at_rate(work, 4.0)
    assert [each.request.arrival_at for each in faster] == [0, 250_000, 500_000]
    assert own_rate(faster) == pytest.approx(4.0)
    assert [each.request.arrival_at for each in at_once(work)] == [0, 0, 0]


def test_what_a_request_expects_moves_with_its_arrival() -> None:
    first, second = asked((0, 4, 2), (1_000_000, 4, 2))
    second = replace(second, request=replace(second.request, expires_at=1_500_000, deadline_at=1_300_000))
    moved = at_rate((first, second), 2.0)[1].request
    assert (moved.arrival_at, moved.expires_at, moved.deadline_at) == (500_000, 1_000_000, 800_000)
    assert moved.start_by is None


def test_requests_of_one_moment_have_no_rate() -> None:
    work = asked((7, 4, 2), (7, 4, 2))
    assert own_rate(work) is None
    with pytest.raises(ConfigError, match="--arrivals poisson"):
        at_rate(work, 2.0)
    assert own_rate(by_chance(work, 3)) is not None


def test_chance_depends_on_its_seed_alone() -> None:
    work = asked(*((0, 4, 2) for _ in range(50)))
    times = [each.request.arrival_at for each in by_chance(work, 3)]
    assert times == sorted(times)
    assert times[0] == 0
    assert times == [each.request.arrival_at for each in by_chance(asked(*((9 * n, 4, 2) for n in range(50))), 3)]
    assert times != [each.request.arrival_at for each in by_chance(work, 4)]
    assert 20e6 < times[-1] < 90e6
