"""The shape of prompts, against a search through everything; and the same runs kept by writer and reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.record.journal_parts import AnswerRow, PromptShape
from arriero.record.runs import RunIndex, RunWindow
from arriero.sim.synthetic_runs import SyntheticRuns

TOKENS = st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 2), max_size=12).map(tuple)
SMALL_TOKENS = st.lists(st.integers(0, 1), max_size=8).map(tuple)


def common_length(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def test_the_first_prompt_is_all_fresh() -> None:
    assert RunIndex().add(1, (5, 6, 7)) == PromptShape(None, 0, 3)


def test_a_prompt_goes_on_after_an_earlier_prompt_and_its_answer() -> None:
    index = RunIndex()
    index.add(1, (5, 6))
    assert index.extend(1, (5, 6, 9, 9), 2) == PromptShape(None, 2, 2)
    assert index.add(2, (5, 6, 9, 9, 4)) == PromptShape(1, 4, 1)
    assert index.add(3, (5, 6, 9, 8)) == PromptShape(1, 3, 1)


def test_of_equal_prompts_the_first_is_named() -> None:
    index = RunIndex()
    for number in (1, 2, 3):
        index.add(number, (4, 4))
    assert index.add(4, (4, 4)) == PromptShape(1, 2, 0)


def test_an_answer_that_others_have_is_named_as_far_as_they_have_it() -> None:
    index = RunIndex()
    index.add(1, (5, 6))
    index.add(2, (5, 6))
    index.add(3, (5, 6, 7, 7))  # goes on with what the first one is about to say
    assert index.extend(1, (5, 6, 7, 8), 2) == PromptShape(3, 3, 1)
    assert index.extend(2, (5, 6, 7, 8), 2) == PromptShape(1, 4, 0)
    assert index.extend(2, (5, 6, 7, 8, 9), 4) == PromptShape(None, 4, 1)


def test_large_tokens_count_as_one_token_each() -> None:
    index = RunIndex()
    index.add(1, (0x01020304, 0x01020305))
    assert index.add(2, (0x01020304, 0x01020306)) == PromptShape(1, 1, 1)
    assert index.add(3, (0x01020404,)) == PromptShape(None, 0, 1)


def test_what_is_forgotten_is_not_referred_to() -> None:
    index = RunIndex(max_runs=2)
    for number, prompt in enumerate([(1, 1), (2, 2), (3, 3)], start=1):
        index.add(number, prompt)
    assert index.add(4, (1, 1)) == PromptShape(None, 0, 2)
    assert index.extend(1, (1, 1, 5), 2) == PromptShape(None, 2, 1)  # forgotten: nobody is named
    assert index.add(5, (1, 1, 5)) == PromptShape(4, 2, 1)


def test_who_is_named_or_goes_on_is_kept_longer() -> None:
    index = RunIndex(max_runs=3)
    for number, prompt in enumerate([(1, 1), (2, 2), (3, 3)], start=1):
        index.add(number, prompt)
    assert index.add(4, (2, 2, 2)) == PromptShape(2, 2, 1)  # 1 goes
    index.extend(3, (3, 3, 3), 2)
    index.add(5, (5,))  # 2 goes: it was named before 4 came
    assert index.add(6, (3, 3, 3)) == PromptShape(3, 3, 0)
    assert index.add(7, (2, 2)).common == 0


def test_the_bound_of_tokens_forgets_the_oldest_and_keeps_the_latest() -> None:
    window: RunWindow[str] = RunWindow(max_runs=9, max_tokens=10)
    assert window.add(1, "a", 6) == []
    assert window.add(2, "b", 5) == [(1, "a")]
    assert window.add(3, "c", 40) == [(2, "b")]
    assert window.get(3) == "c"
    assert window.extend(1, "aa", 7) is None


@pytest.mark.parametrize("prompts", [TOKENS, SMALL_TOKENS])
@given(data=st.data())
def test_the_longest_common_beginning_is_found_among_the_kept_runs(
    prompts: st.SearchStrategy[tuple[int, ...]], data: st.DataObject
) -> None:
    max_runs = data.draw(st.integers(1, 6))
    index, kept = RunIndex(max_runs=max_runs), dict[int, tuple[int, ...]]()

    def check(shape: PromptShape, tokens: tuple[int, ...], described: int = 0) -> None:
        longest = max((common_length(tokens, run) for run in kept.values()), default=0)
        assert (shape.common, shape.fresh) == (max(longest, described), len(tokens) - max(longest, described))
        assert (shape.earlier is None) == (longest <= described)
        if shape.earlier is not None:
            assert common_length(tokens, kept[shape.earlier]) == longest
            kept[shape.earlier] = kept.pop(shape.earlier)

    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        prompt = data.draw(prompts)
        check(index.add(number, prompt), prompt)
        kept[number] = prompt
        kept = dict(list(kept.items())[-max_runs:])
        if data.draw(st.booleans()):
            ended = data.draw(st.sampled_from(sorted(kept)))
            before = kept.pop(ended)
            run = before + data.draw(prompts)
            check(index.extend(ended, run, len(before)), run, len(before))
            kept[ended] = run


@given(st.data(), st.integers(1, 6), st.integers(1, 60))
def test_synthetic_runs_share_exactly_what_the_real_ones_share(
    data: st.DataObject, max_runs: int, max_tokens: int
) -> None:
    index, runs = RunIndex(max_runs, max_tokens), SyntheticRuns(max_runs, max_tokens)
    kept = RunWindow[tuple[tuple[int, ...], tuple[int, ...]]](max_runs, max_tokens)
    made: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def check(real: tuple[int, ...], synthetic: tuple[int, ...], number: int) -> None:
        assert len(synthetic) == len(real)
        for other in made:
            pair = kept.get(other)
            if other != number and pair is not None:
                assert common_length(real, pair[0]) == common_length(synthetic, pair[1])

    for number in range(1, data.draw(st.integers(1, 14)) + 1):
        prompt = data.draw(SMALL_TOKENS)
        shape = index.add(number, prompt)
        synthetic = runs.prompt(number, shape)
        check(prompt, synthetic, number)
        made[number] = (prompt, synthetic)
        if shape.earlier is not None:
            kept.renew(shape.earlier)
        kept.add(number, made[number], len(prompt))
        if data.draw(st.booleans()):
            ended = data.draw(st.sampled_from(sorted(made)))
            real, synthetic = made[ended]
            run = real + data.draw(SMALL_TOKENS)
            is_kept = kept.get(ended) is not None
            shape = index.extend(ended, run, len(real))
            answered = runs.answered(synthetic, AnswerRow(ended, shape.earlier, shape.common, shape.fresh))
            if is_kept:
                check(run, answered, ended)
            made[ended] = (run, answered)
            if shape.earlier is not None:
                kept.renew(shape.earlier)
            kept.extend(ended, made[ended], len(run))
