import pytest

from arriero.core.events import ReuseVerdict
from arriero.kv.lookups import NOTHING, Question, Usable, find_usable
from arriero.kv.reuse import ReuseRules
from arriero.kv.runs import better
from arriero.prefix.cache import PrefixTrees, RunKey

TEXT = tuple(range(20))
ENDED, RUNNING = RunKey(1), RunKey(2)


def found(rules: ReuseRules, prompt: tuple[int, ...], limit: int | None = None, *, length: int = 20) -> Usable:
    """What a prompt finds where a run of 0, 1, 2 ... has ended with `length` tokens, and one of 12 tokens goes on."""
    trees = PrefixTrees()
    trees.insert("a", ENDED, TEXT[:length])
    trees.insert("a", RUNNING, TEXT[:12])
    question = Question("a", prompt, len(prompt) - 1 if limit is None else limit)
    return find_usable(trees, rules, question, lambda run: run == ENDED)


@pytest.mark.parametrize(
    ("rules", "prompt", "num_tokens", "verdict"),
    [
        (ReuseRules(), (*TEXT, 50), 20, ReuseVerdict.REUSED),
        (ReuseRules(), (*TEXT[:15], 50), 15, ReuseVerdict.REUSED),
        (ReuseRules(), (50, 51), 0, ReuseVerdict.NO_MATCH),
        (ReuseRules(), TEXT, 19, ReuseVerdict.REUSED),
        (ReuseRules(), TEXT[:9], 8, ReuseVerdict.REUSED),
        (ReuseRules(), TEXT[:1], 0, ReuseVerdict.WHOLE_PROMPT),
        (ReuseRules(min_suffix=2), TEXT, 18, ReuseVerdict.REUSED),
        (ReuseRules(min_suffix=2), (*TEXT, 50), 19, ReuseVerdict.REUSED),
        (ReuseRules(min_suffix=2), (*TEXT, 50, 51), 20, ReuseVerdict.REUSED),
        (ReuseRules(regenerate=False), TEXT, 0, ReuseVerdict.WHOLE_PROMPT),
        (ReuseRules(regenerate=False), TEXT[:9], 0, ReuseVerdict.WHOLE_PROMPT),
        (ReuseRules(regenerate=False), (*TEXT, 50), 20, ReuseVerdict.REUSED),
        (ReuseRules(min_partial=16), (*TEXT[:15], 50), 0, ReuseVerdict.BELOW_MINIMUM),
        (ReuseRules(min_partial=15), (*TEXT[:15], 50), 15, ReuseVerdict.REUSED),
        (ReuseRules(min_partial=32), (*TEXT, 50), 20, ReuseVerdict.REUSED),
        (ReuseRules(partial=False), (*TEXT, 50), 20, ReuseVerdict.REUSED),
        (ReuseRules(partial=False), (*TEXT[:19], 50), 0, ReuseVerdict.BELOW_MINIMUM),
        (ReuseRules(partial=False), (*TEXT[:12], 50), 0, ReuseVerdict.BELOW_MINIMUM),
    ],
)
def test_how_much_of_a_prompt_may_be_used_and_why(
    rules: ReuseRules, prompt: tuple[int, ...], num_tokens: int, verdict: ReuseVerdict
) -> None:
    usable = found(rules, prompt)
    assert (usable.num_tokens, usable.verdict) == (num_tokens, verdict)
    assert bool(usable.runs) == bool(num_tokens)
    assert usable.num_matched >= num_tokens


@pytest.mark.parametrize("min_suffix", [1, 2])
def test_a_prompt_whose_answer_is_known_in_part_is_reused_whole_or_but_for_its_last_tokens(min_suffix: int) -> None:
    rules = ReuseRules(min_suffix=min_suffix, regenerate=False)
    assert found(rules, TEXT, limit=20).num_tokens == 20
    assert found(rules, TEXT, limit=20, length=19).num_tokens == (19 if min_suffix == 1 else 18)


def test_a_whole_run_that_leaves_too_little_gives_way_to_a_shorter_one() -> None:
    trees = PrefixTrees()
    trees.insert("a", RunKey(1), TEXT[:19])
    trees.insert("a", RunKey(2), TEXT[:10])
    rules = ReuseRules(partial=False, min_suffix=2)
    usable = find_usable(trees, rules, Question("a", TEXT, 20), lambda _: True)
    assert (usable.num_tokens, usable.runs) == (10, (RunKey(2),))


def reused(num_tokens: int) -> Usable:
    return Usable(num_tokens, (ENDED,), ReuseVerdict.REUSED, num_tokens)


COVERED = Usable(0, (), ReuseVerdict.WHOLE_PROMPT, 9)


@pytest.mark.parametrize(
    ("near", "saved", "num_tokens", "is_saved", "verdict"),
    [
        (reused(9), NOTHING, 9, False, ReuseVerdict.REUSED),
        (reused(9), reused(12), 9, False, ReuseVerdict.REUSED),
        (reused(9), reused(13), 13, True, ReuseVerdict.REUSED),
        (NOTHING, reused(4), 4, True, ReuseVerdict.REUSED),
        (NOTHING, reused(3), 0, False, ReuseVerdict.BELOW_MINIMUM),
        (COVERED, reused(30), 0, False, ReuseVerdict.WHOLE_PROMPT),
        (reused(5), COVERED, 0, True, ReuseVerdict.WHOLE_PROMPT),
        (NOTHING, NOTHING, 0, False, ReuseVerdict.NO_MATCH),
    ],
)
def test_the_host_store_is_used_where_it_has_enough_more(
    near: Usable,
    saved: Usable,
    num_tokens: int,
    is_saved: bool,  # noqa: FBT001 - a table
    verdict: ReuseVerdict,
) -> None:
    usable, comes_from_host = better(near, saved, min_restored=4)
    assert (usable.num_tokens, comes_from_host, usable.verdict) == (num_tokens, is_saved, verdict)
