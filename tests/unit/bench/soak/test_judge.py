"""Every statement of a soak holds for a sound one, and breaks for the one thing that it is about."""

from typing import Any

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.experiment import Judgement
from arriero.bench.soak.judge import judge, memory_slope
from arriero.bench.soak.plan import Kind
from arriero.bench.soak.records import GapSums, LegRecord, ServerRecord, Surprise
from arriero.bench.soak.state import SoakState
from arriero.metrics.client_life import Outcome
from tests.unit.bench.experiments.running import find
from tests.unit.bench.soak.soaks import ENDS, MIB, MS, leg, reading, settings, state

BESIDE = {"visit_s": 10.0, "visit_cpu_s": 5.0}


def sound() -> SoakState:
    return state(leg(0), leg(1, **BESIDE))


def broken(found: SoakState) -> list[str]:
    return [each.text for each in judge(found) if each.judgement is Judgement.BROKEN]


def with_leg(**over: Any) -> SoakState:  # noqa: ANN401 - fields of a leg
    return state(leg(0), leg(1, **{**BESIDE, **over}))


def test_nothing_is_broken_in_a_sound_soak_and_only_memory_is_open() -> None:
    statements = list(judge(sound()))
    assert [each.text for each in statements if each.judgement is not Judgement.HOLDS] == [
        "growth of resident memory, MiB a minute"
    ]
    assert len(statements) > 10


SURPRISE = Surprise(request_id="1-long-0", kind=Kind.LONG, outcome=Outcome.TIMEOUT, error="drain_limit", status=None)


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"asked": 17}, "requests without an end"),
        ({"num_surprises": 1, "surprises": (SURPRISE,)}, "ended as none of their kind should"),
        ({"num_errors": 1}, "status 500 and more"),
        ({"counted": 20}, "server and client count differently"),
        ({"after": reading(is_well=False)}, "the server was not well"),
        ({"after": reading(in_flight=1)}, "places, answers and requests left"),
        ({"after": reading(answering=1)}, "places, answers and requests left"),
        ({"after": reading(waiting=1)}, "places, answers and requests left"),
        ({"after": reading(active_cells=7)}, "KV cells held"),
        ({"after": reading(swapped=1)}, "KV cells held"),
        ({"after": reading(sequences_held=1)}, "sequence ids nobody can use"),
        ({"after": reading(sequences_quarantined=1)}, "sequence ids nobody can use"),
        ({"after": reading(sequence_ids=3)}, "sequence ids lost"),
        ({"after": reading(tasks=6)}, "more tasks"),
        ({"after": reading(files=21)}, "more open files"),
        ({"visit_cpu_s": 0.1}, "CPUs that the neighbour had"),
    ],
)
def test_a_leg_breaks_the_statement_that_it_is_about(over: dict[str, Any], words: str) -> None:
    (text,) = broken(with_leg(**over))
    assert words in text


def test_a_surprise_is_told_by_name() -> None:
    found = with_leg(num_surprises=1, surprises=(SURPRISE,))
    assert find(list(judge(found)), "none of their kind").measured == "1, such as 1-long-0: timeout (drain_limit)"


@pytest.mark.parametrize("kind", [Kind.BURST, Kind.LEFT, Kind.LONG, Kind.SLOW])
def test_what_never_happened_is_told(kind: Kind) -> None:
    ends = {each: found for each, found in ENDS.items() if each is not kind}
    quiet = state(leg(0, ends=ends, asked=sum(sum(each.values()) for each in ends.values())))
    assert "what never happened" in " ".join(broken(quiet))


def test_leaks_are_those_at_the_end_of_each_server() -> None:
    early = state(leg(0, after=reading(files=30, tasks=9)), leg(1, **BESIDE))
    assert broken(early) == []
    two = replace(
        state(leg(0, after=reading(files=30)), leg(1, server=2, **BESIDE)),
        servers=(ServerRecord(number=1, before=reading()), ServerRecord(number=2, before=reading())),
    )
    (text,) = broken(two)
    assert "more open files" in text


@pytest.mark.parametrize("name", ["files", "tasks"])
def test_what_nobody_tells_stays_open(name: str) -> None:
    blind = reading(**{name: None})
    found = replace(
        state(leg(0, after=blind), leg(1, after=blind, **BESIDE)), servers=(ServerRecord(number=1, before=blind),)
    )
    words = "more open files" if name == "files" else "more tasks"
    assert find(list(judge(found)), words).judgement is Judgement.OPEN
    assert broken(found) == []


@pytest.mark.parametrize(
    ("how", "status", "expected"),
    [
        ("terminated", 0, False),
        ("terminated", -15, True),
        ("killed", -9, True),
        ("exited", 0, True),
        (None, None, False),
    ],
)
def test_a_server_has_to_end_in_order_unless_it_was_killed_with_the_soak(
    how: str | None,
    status: int | None,
    expected: bool,  # noqa: FBT001 - a table
) -> None:
    server = ServerRecord(number=1, before=reading(), how=how, status=status)
    assert ("end in order" in " ".join(broken(replace(sound(), servers=(server,))))) is expected


def test_a_soak_that_is_not_over_or_failed_does_not_hold() -> None:
    assert broken(replace(sound(), legs=sound().legs[:1])) == ["legs that were run"]
    failed = replace(sound(), failures=("arriero: ended with status 9 in leg 2",))
    assert find(list(judge(failed)), "times the server failed").measured == (
        "1, such as arriero: ended with status 9 in leg 2"
    )


def grown(*sizes_mib: float, **over: Any) -> SoakState:  # noqa: ANN401 - fields of a state
    legs = [leg(number, after=reading(resident_bytes=round(size * MIB))) for number, size in enumerate(sizes_mib)]
    return state(*legs, **over)


@pytest.mark.parametrize(("counted", "is_broken"), [(13, True), (14, False), (16, False), (17, True)])
def test_counts_differ_outside_of_what_may_be(counted: int, is_broken: bool) -> None:  # noqa: FBT001 - a table
    found = state(leg(0, counted=counted, least_counted=14, most_counted=16, **BESIDE))
    assert ("count differently" in " ".join(broken(found))) is is_broken


def test_what_a_leg_left_behind_may_be_counted_in_the_next_one() -> None:
    """It was left as soon as it was sent, and the server saw it after the books had been read."""
    bounds = {"least_counted": 10, "most_counted": 10}
    early, late = {"counted": 9, **bounds}, {"counted": 11, **bounds}
    same = state(leg(0, **early), leg(1, **late, **BESIDE))
    assert broken(same) == []
    two = replace(
        state(leg(0, **early), leg(1, server=2, **late, **BESIDE)),
        servers=(ServerRecord(number=1, before=reading()), ServerRecord(number=2, before=reading())),
    )
    (text,) = broken(two)
    assert "count differently" in text
    assert find(list(judge(two)), "count differently").measured == 2


def test_memory_grows_by_the_median_slope_after_the_first_third() -> None:
    steady = grown(10, 60, 100, 100, 100, 140, 100, 100, 100)  # warming up, and one leg at a bad moment
    slope = memory_slope(steady, 1)
    assert slope is not None
    assert slope.value == 0
    leaking = grown(*(100 + 3 * number for number in range(9)))
    assert memory_slope(leaking, 1) == pytest.approx((3, 3, 3))
    assert memory_slope(leaking, 2) is None
    for bound, expected in ((2.9, Judgement.BROKEN), (3.1, Judgement.HOLDS)):
        bounded = replace(leaking, settings=replace(leaking.settings, memory_mib_per_min=bound))
        assert find(list(judge(bounded)), "growth of resident memory").judgement is expected


def test_a_growth_that_may_as_well_be_none_is_open() -> None:
    noisy = grown(*(100 + (20, -15, 8, -20, 14, -6)[number % 6] + 3 * number for number in range(12)))
    slope = memory_slope(noisy, 1)
    assert slope is not None
    assert slope.low < 0 < slope.value < slope.high
    bounded = replace(noisy, settings=replace(noisy.settings, memory_mib_per_min=slope.value / 2))
    found = find(list(judge(bounded)), "growth of resident memory")
    assert found.judgement is Judgement.OPEN
    assert "run longer" in (found.reason or "")
    assert broken(bounded) == []


def test_memory_of_few_legs_shows_no_slope() -> None:
    assert memory_slope(grown(*[100.0] * 8), 1) == (0, 0, 0)
    assert memory_slope(grown(*[100.0] * 7), 1) is None


def gaps(held_ms: int, total_ms: int) -> GapSums:
    return GapSums(count=2, total_ns=total_ms * MS, held_ns=held_ms * MS)


@pytest.mark.parametrize(("beside", "expected"), [(81, Judgement.HOLDS), (79, Judgement.BROKEN)])
def test_a_target_is_held_over_quiet_and_busy_time_together(beside: int, expected: Judgement) -> None:
    legs: list[LegRecord] = [leg(0, quiet=gaps(100, 100), beside=gaps(beside, 100))]
    wanted = settings(minutes=0.5 / 60, itl_target_ms=100, held_share=0.9)
    found = replace(state(*legs), settings=wanted)
    assert find(list(judge(found)), "share of the streams' time").judgement is expected


def test_without_a_target_nothing_is_said_of_one() -> None:
    assert not any("streams' time" in each.text for each in judge(sound()))
