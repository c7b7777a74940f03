from collections.abc import Mapping

from arriero.report.comparison import compared
from arriero.report.document import Alert, Fold, Level, Table

SAME: Mapping[str, str | None] = {"workload": "a" * 64, "seed": "1", "costs": "x"}


def alert(*traits: Mapping[str, str | None]) -> Alert:
    names = [f"r{number}" for number in range(len(traits))]
    found = compared(names, traits, "workload").parts()[0]
    assert isinstance(found, Alert)
    return found


def test_one_result_is_compared_with_nothing() -> None:
    assert compared(["a"], [SAME], "workload").parts() == ()


def test_equal_results_may_be_compared() -> None:
    assert alert(SAME, SAME).level is Level.GOOD


def test_other_settings_are_named_and_shown() -> None:
    comparison = compared(["a", "b"], [SAME, {**SAME, "costs": "y"}], "workload")
    found, table = comparison.parts()
    assert isinstance(found, Alert)
    assert (found.level, comparison.is_fair) == (Level.NOTE, True)
    assert "differ in costs alone" in found.text
    assert isinstance(table, Table)
    assert table.rows == (("costs", "`x`", "`y`"),)


def test_other_workloads_are_a_warning_and_a_hash_is_shown_by_its_beginning() -> None:
    found, table = compared(["a", "b"], [SAME, {**SAME, "workload": "b" * 64}], "workload").parts()
    assert isinstance(found, Alert)
    assert found.level is Level.BAD
    assert "must not be compared" in found.text
    assert isinstance(table, Table)
    assert table.rows == (("workload", "`aaaaaaaaaaaa…`", "`bbbbbbbbbbbb…`"),)


def test_an_excluded_result_is_named_and_nothing_is_compared() -> None:
    comparison = compared(["a", "b"], [SAME, SAME], "workload", {"b": "is invalid (it was late)"})
    (found,) = comparison.parts()
    assert isinstance(found, Alert)
    assert (found.level, comparison.is_fair) == (Level.BAD, False)
    assert found.text.startswith("b is invalid (it was late): figures stand side by side here but must not be compared")
    alone = compared(["b"], [SAME], "workload", {"b": "is invalid (it was late)"})
    assert (alone.parts(), alone.obstacle) == ((), None)


def test_a_workload_that_nobody_knows_is_not_the_same() -> None:
    assert "cannot be shown to have the same workload" in alert(SAME, {**SAME, "workload": None}).text


def test_many_results_stand_one_below_the_other() -> None:
    traits = [{**SAME, "costs": str(number)} for number in range(5)]
    fold = compared([f"r{number}" for number in range(5)], traits, "workload").parts()[1]
    assert isinstance(fold, Fold)
    (table,) = fold.parts
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["r0", "r1", "r2", "r3", "r4"]
