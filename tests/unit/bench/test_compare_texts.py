"""Equal prompts and their answers are counted, within a side and between the sides."""

from hypothesis import given
from hypothesis import strategies as st

from arriero.bench.compare_texts import EXAMPLES, Texts

answers = st.dictionaries(st.sampled_from("pqrst"), st.sampled_from("xyz"), max_size=5)


def texts(*measured: dict[str, str]) -> Texts:
    found = Texts()
    for each in measured:
        found.note(each)
    return found


def test_a_prompt_that_got_two_answers_is_named_with_both() -> None:
    found = texts({"p": "x" * 64, "q": "y"}, {"p": "z" * 64, "q": "y"}).changes(must_be_stable=True)
    assert (found.prompts, found.changed, found.must_be_stable) == (2, 1, True)
    assert found.examples == (f"p: {'x' * 12}, {'z' * 12}",)


def test_a_prompt_that_was_asked_once_says_nothing() -> None:
    assert texts({"p": "x"}, {"q": "y"}).changes(must_be_stable=False).prompts == 0


def test_only_shared_prompts_are_compared_between_sides() -> None:
    found = texts({"p": "x", "q": "x", "r": "x"}).differences(texts({"q": "x", "r": "y", "s": "y"}))
    assert (found.prompts, found.changed, found.must_be_stable) == (2, 1, False)


def test_examples_are_few() -> None:
    many = {str(number): "x" for number in range(50)}
    found = texts(many, dict.fromkeys(many, "y")).changes(must_be_stable=False)
    assert found.changed == 50
    assert len(found.examples) == EXAMPLES


@given(st.lists(answers, max_size=4))
def test_changes_are_exactly_the_prompts_with_different_answers(measured: list[dict[str, str]]) -> None:
    seen: dict[str, list[str]] = {}
    for each in measured:
        for name, text in each.items():
            seen.setdefault(name, []).append(text)
    found = texts(*measured).changes(must_be_stable=False)
    assert found.prompts == sum(len(each) > 1 for each in seen.values())
    assert found.changed == sum(len(set(each)) > 1 for each in seen.values())


@given(answers, answers)
def test_differences_are_the_same_from_either_side(one: dict[str, str], other: dict[str, str]) -> None:
    there, back = texts(one).differences(texts(other)), texts(other).differences(texts(one))
    assert (there.prompts, there.changed) == (back.prompts, back.changed)
