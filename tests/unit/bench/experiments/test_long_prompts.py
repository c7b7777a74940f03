"""Streams beside long prompts: what is sent, which gaps count, who is the fastest, what is judged."""

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Judgement, Statement
from arriero.bench.experiments.failed_cells import FailedCells
from arriero.bench.experiments.long_prompts import (
    EXPERIMENT,
    WITHOUT,
    LongPrompts,
    fastest,
    judge,
    sides_of,
    table,
    target_name,
    time_ratio,
)
from arriero.bench.experiments.long_prompts_load import LongLoad, LongRun, asks_of, send_beside
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from arriero.testing.virtual_loop import run_virtual, virtual_pace
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick
from tests.unit.bench.scripted_target import ScriptedTarget

MS = 1_000_000
S = 1_000_000_000
LOAD = LongLoad(
    streams=2, stream_prompt=4, stream_budget=6, after_s=0.5, prompts=2, prompt_tokens=30, prompt_budget=2,
    first_token=0, vocabulary=50,
)  # fmt: skip
JUDGED = target_name(100)
PEER, SMALL = "llama-server", "llama-server -b 64 -ub 64"


def life(name: str, sent_at: int, moments: list[int], closed_at: int | None = None) -> ClientLife:
    return ClientLife(
        request_id=name, intended_at=None, sent_at=sent_at, closed_at=closed_at or moments[-1], asked_tokens=9,
        outcome=Outcome.LENGTH, chunk_at=tuple(moments), chunk_tokens=(1,) * len(moments), num_tokens=len(moments),
    )  # fmt: skip


def run_of(side: str, number: int = 0, *, gap_ms: float = 10, total_s: float = 10, gaps: int = 100) -> LongRun:
    """A stream with equal gaps, and a long prompt that comes 15 ms after its start."""
    moments = [round(MS + index * gap_ms * MS) for index in range(gaps + 1)]
    long = life("long", 15 * MS, [round(35 * MS)], round(total_s * S))
    return LongRun(side=side, round=number, streams=(life("stream", 0, moments, 1),), prompts=(long,))


def config(**over: object) -> LongPrompts:
    found = read_definition(definition(EXPERIMENT), LongPrompts)
    return replace(found, **over)


def judged(runs: list[LongRun], *, peer: str | None = "llama-server") -> list[Statement]:
    return list(judge(config(peer=peer), runs, FailedCells()))


def test_prompts_of_a_round_are_the_same_for_every_side_and_begin_unlike_one_another() -> None:
    streams, prompts = asks_of(LOAD, 3, seed=1)
    assert (streams, prompts) == asks_of(LOAD, 3, seed=1)
    assert [len(ask.prompt) for ask in (*streams, *prompts)] == [4, 4, 30, 30]
    assert len({ask.prompt[0] for ask in (*streams, *prompts)}) == 4
    assert len({ask.request_id for ask in (*streams, *prompts)}) == 4
    assert asks_of(LOAD, 4, seed=1)[1][0].prompt != prompts[0].prompt


def test_a_vocabulary_that_is_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"load\.vocabulary: 3 ids; 4 prompts"):
        replace(LOAD, vocabulary=3).check()


def test_long_prompts_are_sent_together_while_the_streams_are_under_way() -> None:
    async def main() -> list[tuple[str, int]]:
        pace = virtual_pace()
        target = ScriptedTarget(pace, delay=lambda _ask, _now: 2 * S)
        streams, prompts = await send_beside(target, LOAD, *asks_of(LOAD, 0, seed=1))
        assert [life.request_id.split("-")[0] for life in (*streams, *prompts)] == ["stream"] * 2 + ["long"] * 2
        return target.asked

    begin, *_ = asked = run_virtual(main())
    assert [round((at - begin[1]) / MS) for _, at in asked] == [0, 0, 500, 500]


def test_what_came_while_the_long_prompts_were_computed_is_counted() -> None:
    run = run_of("x")  # tokens at 1, 11, 21, 31 ms ...; sent at 15, computed at 35
    assert run.num_beside == 2
    assert run.first_s == pytest.approx(0.02)
    assert run.seconds == 10
    assert run.spoke_before
    late = LongRun(side="x", round=0, streams=(life("s", 0, [16 * MS, 17 * MS]),), prompts=run.prompts)
    assert not late.spoke_before


def test_the_fastest_setting_is_that_of_the_least_median_time() -> None:
    runs = [
        *(run_of(PEER, number, total_s=total) for number, total in enumerate((9, 9, 20))),
        *(run_of(SMALL, number, total_s=total) for number, total in enumerate((10, 10, 1))),
        *(run_of(JUDGED, number, total_s=1) for number in range(3)),
    ]
    assert fastest(runs) == PEER
    assert fastest([run_of(JUDGED)]) is None


def test_time_is_compared_round_by_round() -> None:
    runs = [run_of(JUDGED, 0, total_s=12), run_of(PEER, 0, total_s=10), run_of(JUDGED, 1, total_s=20)]
    assert time_ratio(runs, JUDGED, PEER) == pytest.approx(1.2)
    assert time_ratio(runs, JUDGED, SMALL) is None


@pytest.mark.parametrize(
    ("gap_ms", "total_s", "expected"),
    [
        (100, 12.5, {"at a target of 100 ms": "PASS", "ITL p99 of the streams / that": "PASS", "total time": "PASS"}),
        (101, 12.6, {"at a target of 100 ms": "FAIL", "ITL p99 of the streams / that": "FAIL", "total time": "FAIL"}),
    ],
)
def test_our_first_target_is_judged_against_itself_and_the_fastest_setting(
    gap_ms: float, total_s: float, expected: dict[str, str]
) -> None:
    runs = [
        run_of(JUDGED, gap_ms=gap_ms, total_s=total_s),
        run_of(PEER, gap_ms=400, total_s=10),
        run_of(SMALL, gap_ms=300, total_s=11),  # slower, so its shorter gaps do not matter
    ]
    statements = judged(runs)
    assert {words: str(find(statements, words).judgement) for words in expected} == expected


def test_without_a_peer_or_with_too_few_gaps_nothing_is_decided() -> None:
    alone = judged([run_of(JUDGED)], peer=None)
    assert find(alone, "total time").judgement is Judgement.OPEN
    assert find(alone, "at a target of 100 ms").judgement is Judgement.HOLDS
    few = judged([run_of(JUDGED, gaps=99), run_of(PEER)])
    assert find(few, "at a target of 100 ms").reason == "99 gaps; a p99 needs 100"
    assert find(few, "ITL p99 of the streams / that").judgement is Judgement.OPEN


def test_a_stream_that_was_silent_before_fails_the_run() -> None:
    runs = [run_of(JUDGED), LongRun(side=JUDGED, round=1, streams=(), prompts=())]
    assert find(judged(runs), "had no token before").judgement is Judgement.BROKEN


def test_table_tells_what_a_target_costs() -> None:
    runs = [run_of(JUDGED, total_s=12), run_of(WITHOUT, total_s=10), run_of(PEER, total_s=8)]
    rows = {row[0]: dict(zip(table(config(), runs).heads, row, strict=True)) for row in table(config(), runs).rows}
    assert rows[JUDGED]["total / no target"] == 1.2
    assert rows[JUDGED]["total / llama-server at its fastest"] == 1.5
    assert rows[PEER]["total / llama-server at its fastest"] == 1


def test_each_target_and_each_setting_of_the_peer_is_a_side() -> None:
    sides = sides_of(config(peer="llama-server"))
    assert [side.name for side in sides][:5] == [*map(target_name, (100, 150, 200)), WITHOUT, "llama-server"]
    assert sides[5].flags == ("-b", "64", "-ub", "64")
    assert [side.is_ours for side in sides_of(config())] == [True] * 4


@pytest.mark.slow
def test_quick_variant_holds_its_target_without_a_model() -> None:
    outcome = run_quick(EXPERIMENT)
    assert not_so(outcome.statements, "llama-server", "at a target of") == []
    with_target, without = rows_of(outcome, "Streams beside long prompts")
    assert (with_target["side"], without["side"]) == (target_name(40), WITHOUT)
    # one prompt of 200 rows takes 104 ms at once; within the target it takes steps of at most 40 ms
    assert float(str(with_target["ITL max, ms"])) < float(str(without["ITL max, ms"]))
    assert int(str(with_target["beside"])) > int(str(without["beside"]))
