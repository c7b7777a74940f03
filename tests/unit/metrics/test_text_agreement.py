"""How far two answers agree."""

from hypothesis import given
from hypothesis import strategies as st

from arriero.metrics.text_agreement import agree, common_beginning, normalise


@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_what_normalising_makes_equal() -> None:
    same = ("The  fish\n", "the \ufb01sh", "THE FISH", "\u00a0the\tfish")
    assert {normalise(text) for text in same} == {"the fish"}
    assert normalise("Stra\u00dfe") == normalise("STRASSE")
    assert normalise("fish!") != normalise("fish")


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_the_common_beginning_is_the_longest_one(first: list[int], second: list[int]) -> None:
    length = common_beginning(first, second)
    assert first[:length] == second[:length]
    assert length == min(len(first), len(second)) or first[length] != second[length]


def test_an_answer_beside_another() -> None:
    found = agree("Yes, it is.", "yes, it  is. Really.", (1, 2, 3), (1, 2, 4, 5))
    assert found == (False, False, 2, 9)
    assert agree("Yes", "YES ", (1,), (1,)) == (False, True, 1, 1)
    assert agree("a", "a", (1,), (1,)) == (True, True, 1, 0)
