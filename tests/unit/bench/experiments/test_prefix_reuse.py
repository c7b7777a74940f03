"""Prefix reuse on the formula: what each way of serving skips, and statements that bite."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from arriero.bench.experiments.definition import read_definition
from arriero.bench.experiments.experiment import Experiment, Judgement, Statement
from arriero.bench.experiments.near_ties import NearTie
from arriero.bench.experiments.prefix_reuse import (
    W_CHAT,
    W_CONTROL,
    W_LONG_SYS,
    W_REPEAT_PREFIX,
    PrefixReuse,
    judge,
)
from arriero.bench.experiments.prefix_reuse_cells import Answered, Cell, Way
from arriero.bench.experiments.prefix_reuse_figures import counters, num_compared, partings
from arriero.bench.experiments.prefix_reuse_workloads import Turn, Workload
from arriero.core.errors import ConfigError
from arriero.metrics.client_life import ClientLife, Outcome
from tests.unit.bench.experiments.running import definition, find, not_so, rows_of, run_quick

MS = 1_000_000


def life(name: str, *, first_ms: float = 10, cached: int = 0) -> ClientLife:
    return ClientLife(
        request_id=name, intended_at=None, sent_at=0, chunk_at=(int(first_ms * MS),), closed_at=20 * MS,
        outcome=Outcome.LENGTH, asked_tokens=4, num_tokens=4, prompt_tokens=100, cached_tokens=cached,
    )  # fmt: skip


def cell(
    way: Way, *texts: str, cached: int = 0, number: int = 0, first_ms: float = 10, interleaved: int = 2
) -> Cell:  # fmt: skip
    """A cell of the peer's kind, which is believed: its figures come from its lives."""
    answers = tuple(
        Answered(
            turn=Turn(name=f"t{index}", session="s", text=""), prompt=f"prompt {index}", text=text,
            life=life(f"t{index}", cached=cached, first_ms=first_ms),
        )
        for index, text in enumerate(texts or ("a", "b"))
    )  # fmt: skip
    return Cell(way=way, round=number, interleaved=interleaved, answers=answers, log=None)


def judged(workload: Workload, cells: Sequence[Cell], ties: Sequence[tuple[Way, NearTie]] = ()) -> list[Statement]:
    config = read_definition(definition(W_CHAT), PrefixReuse)
    return list(judge(workload, replace(config, interleaved=(2,)), cells, ties))


def test_way_that_skips_too_little_fails() -> None:
    base = cell(Way.OFF)
    for cached, expected in ((80, Judgement.HOLDS), (70, Judgement.BROKEN)):
        cells = [base, cell(Way.TREE, cached=cached, first_ms=2), cell(Way.SESSION_EXACT, cached=cached)]
        statements = judged(Workload.CHAT, cells)
        assert find(statements, "tree: share of prompt rows").judgement is expected
        assert find(statements, "session, exact: share").judgement is expected
        assert find(statements, "tree: TTFT p50").judgement is Judgement.HOLDS
    assert find(judged(Workload.CHAT, [base]), "tree: share").judgement is Judgement.OPEN


def test_exact_sessions_must_skip_nothing_of_prompts_that_do_not_continue() -> None:
    statements = judged(Workload.LONG_SYS, [cell(Way.OFF), cell(Way.SESSION_EXACT, cached=1)])
    assert find(statements, "session, exact: share").judgement is Judgement.BROKEN
    statements = judged(Workload.LONG_SYS, [cell(Way.OFF), cell(Way.SESSION_EXACT)])
    assert find(statements, "session, exact: share").judgement is Judgement.HOLDS


def test_control_needs_six_rounds_and_finds_a_way_that_is_slower() -> None:
    def slower(each: Cell) -> Cell:
        answers = tuple(
            Answered(turn=a.turn, prompt=a.prompt, text=a.text, life=life(a.turn.name)) for a in each.answers
        )
        late = [
            Answered(turn=a.turn, prompt=a.prompt, text=a.text, life=_later(a.life, 40 * MS)) for a in answers
        ]  # fmt: skip
        return Cell(way=Way.TREE, round=each.round, interleaved=2, answers=tuple(late), log=None)

    base = [cell(Way.OFF, number=number) for number in range(6)]
    assert find(judged(Workload.CONTROL, [*base[:2], slower(base[0])]), "tree: tok/s").judgement is Judgement.OPEN
    found = find(judged(Workload.CONTROL, [*base, *map(slower, base)]), "tree: tok/s")
    assert found.judgement is Judgement.BROKEN
    alike = [cell(Way.TREE, number=number) for number in range(6)]
    assert find(judged(Workload.CONTROL, [*base, *alike]), "tree: tok/s").judgement is Judgement.HOLDS


def _later(each: ClientLife, closed_at: int) -> ClientLife:
    return ClientLife(
        request_id=each.request_id, intended_at=None, sent_at=0, chunk_at=each.chunk_at, closed_at=closed_at,
        outcome=each.outcome, asked_tokens=4, num_tokens=4, prompt_tokens=100, cached_tokens=0,
    )  # fmt: skip


def test_another_answer_breaks_exact_mode_and_elsewhere_has_to_be_a_near_tie() -> None:
    def tie(gap: float | None) -> NearTie:
        return NearTie(name="t0", index=1, token="a", other="b", gap=gap)

    for way, gap, exact, near in (
        (Way.TREE, 0.1, Judgement.HOLDS, Judgement.HOLDS),
        (Way.TREE, 3.0, Judgement.HOLDS, Judgement.BROKEN),
        (Way.TREE, None, Judgement.HOLDS, Judgement.OPEN),
        (Way.EXACT_TREE, 0.1, Judgement.BROKEN, Judgement.HOLDS),
    ):
        statements = judged(Workload.CHAT, [cell(Way.OFF)], [(way, tie(gap))])
        assert find(statements, "exact mode: answers").judgement is exact
        assert find(statements, "largest logit gap").judgement is near


def test_answers_are_compared_with_those_to_the_same_prompt_in_the_same_mode() -> None:
    cells = [
        cell(Way.OFF, "a", "b"),
        cell(Way.TREE, "a", "c"),
        cell(Way.EXACT_OFF, "x"),
        cell(Way.EXACT_TREE, "x", "y"),
    ]
    assert [(each.name, each.text, each.other) for each in partings(cells, Way.TREE)] == [("t1", "b", "c")]
    assert partings(cells, Way.EXACT_TREE) == []
    assert num_compared(cells, Way.EXACT_TREE) == 1, "the other prompt was not asked without reuse"


def test_counters_are_the_whole_numbers_of_a_cache_picture() -> None:
    picture = {"figures": {"evictions": {"count": 2, "age": 0}, "copies": 3, "last_lru": 7}, "scopes": [{"runs": 9}]}
    assert counters(picture) == {"evictions.count": 2, "evictions.age": 0, "copies": 3}
    assert counters("no such page") == {}


def test_control_needs_a_first_word_for_each_request() -> None:
    config = read_definition(definition(W_CONTROL), PrefixReuse, quick=True)
    with pytest.raises(ConfigError, match=r"texts\.nouns: 42 of them, all unlike; control needs 101"):
        W_CONTROL.run(replace(config, measured=100), lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [W_CHAT, W_LONG_SYS, W_REPEAT_PREFIX], ids=lambda each: each.name)
def test_quick_variant_skips_what_is_shared_and_changes_no_answer(experiment: Experiment[Any]) -> None:
    outcome = run_quick(experiment)
    assert not_so(outcome.statements, "TTFT p50") == []  # times of a formula beside other tests
    rows = rows_of(outcome, "Prefix reuse")
    assert {row["way"] for row in rows} == {str(way) for way in Way if way is not Way.PEER}
    assert all(str(row["other answers"]).startswith("0 of ") for row in rows)
    counted = {str(row["counter"]): row for row in rows_of(outcome, "Reuse and eviction")}
    assert counted["lookups.reused"]["tree, 1"]
    assert counted["lookups.reused"]["no reuse, 1"] == 0


@pytest.mark.slow
def test_quick_control_reuses_nothing() -> None:
    outcome = run_quick(W_CONTROL)
    assert not_so(outcome.statements, "tok/s") == []
    assert all(row["share skipped"] == 0 for row in rows_of(outcome, "Prefix reuse"))
    assert find(outcome.statements, "tree: tok/s").judgement is Judgement.OPEN, "one round decides nothing"
