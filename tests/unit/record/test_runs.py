"""The shape of prompts, against a search through everything; and the same runs kept by writer and reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arriero.record.journal_parts import PromptShape
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
    index.extend(1, (5, 6, 9, 9))
    assert index.add(2, (5, 6, 9, 9, 4)) == PromptShape(1, 4, 1)
    assert index.add(3, (5, 6, 9, 8)) == PromptShape(1, 3, 1)


def test_of_equal_prompts_the_first_is_named() -> None:
    index = RunIndex()
    for number in (1, 2, 3):
        index.add(number, (4, 4))
    assert index.add(4, (4, 4)) == PromptShape(1, 2, 0)


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
    index.extend(1, (1, 1, 5))  # forgotten: nothing happens
    assert index.add(5, (1, 1, 5)) == PromptShape(4, 2, 1)


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
    for number in range(1, data.draw(st.integers(1, 12)) + 1):
        prompt = data.draw(prompts)
        shape = index.add(number, prompt)
        longest = max((common_length(prompt, run) for run in kept.values()), default=0)
        assert (shape.common, shape.fresh) == (longest, len(prompt) - longest)
        assert (shape.earlier is None) == (longest == 0)
        if shape.earlier is not None:
            assert common_length(prompt, kept[shape.earlier]) == longest
        kept[number] = prompt
        kept = dict(list(kept.items())[-max_runs:])
        if data.draw(st.booleans()):
            ended = data.draw(st.sampled_from(sorted(kept)))
            kept[ended] += data.draw(prompts)
            index.extend(ended, kept[ended])


@given(st.lists(SMALL_TOKENS, min_size=1, max_size=14), st.integers(1, 6), st.integers(1, 30))
def test_synthetic_prompts_share_exactly_what_the_real_ones_share(
    prompts: list[tuple[int, ...]], max_runs: int, max_tokens: int
) -> None:
    index, runs = RunIndex(max_runs, max_tokens), SyntheticRuns(max_runs, max_tokens)
    kept = RunWindow[tuple[tuple[int, ...], tuple[int, ...]]](max_runs, max_tokens)
    for number, prompt in enumerate(prompts, start=1):
        synthetic = runs.prompt(number, index.add(number, prompt))
        assert len(synthetic) == len(prompt)
        for earlier in range(1, number):
            pair = kept.get(earlier)
            if pair is not None:
                assert common_length(prompt, pair[0]) == common_length(synthetic, pair[1])
        kept.add(number, (prompt, synthetic), len(prompt))
