import random
from itertools import pairwise
from pathlib import Path

from arriero.lab.ab.plan import AbPlan
from arriero.lab.ab.schedule import first_sides, schedule
from arriero.metrics.paired_order import OrderKind, judge_order
from arriero.record.cpu_lab.ab_run import AbPhase
from tests.unit.lab.ab.runs import RATE, program, setup


def test_the_published_order_of_sides() -> None:
    generator = random.Random(8081)
    expected = []
    for _ in range(20):
        names = ["baseline", "optimized"]
        generator.shuffle(names)
        expected.append({"baseline": "a", "optimized": "b"}[names[0]])
    assert first_sides(8081, 20) == expected
    assert {"a", "b"} == set(expected)


def test_the_order_of_all_runs(tmp_path: Path) -> None:
    plan = AbPlan(num_pairs=20, num_aa_pairs=10, num_warm_ups=3, metrics=(RATE,))
    planned = schedule(setup(program(tmp_path, 1), program(tmp_path, 2), plan).manifest)
    assert [each.execution_index for each in planned] == list(range(66))
    assert [each.side for each in planned[:6]] == ["a", "b"] * 3
    assert [each.phase for each in planned] == [AbPhase.WARM_UP] * 6 + [AbPhase.AA] * 20 + [AbPhase.AB] * 40
    assert {each.variant for each in planned[6:26]} == {"a"}  # A against itself, under two names
    assert len({each.invocation_id for each in planned}) == 66
    letters = "".join(each.side for each in planned[26:])
    assert judge_order(letters).kind is OrderKind.INTERLEAVED
    for first, second in pairwise(planned[26:]):
        if second.place == 1:
            assert (first.pair, {first.side, second.side}) == (second.pair, {"a", "b"})
