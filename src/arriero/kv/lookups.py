"""What a lookup says: how much of a prompt some run holds, and how much of that may be used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from arriero.core.events import ReuseVerdict
from arriero.core.ids import TokenId
from arriero.kv.protocol import PrefixHit
from arriero.kv.reuse import ReuseRules
from arriero.prefix.cache import PrefixTrees, RunKey


@dataclass(frozen=True, slots=True)
class RunHit(PrefixHit):
    """What a lookup found, with what is needed to let others find the rest.

    Attributes:
        scope: in which was looked.
        tokens: the whole prompt.
        runs: some that hold the tokens; empty if there are none.
        is_saved: whether these are in the host store.
    """

    scope: str
    tokens: Sequence[TokenId]
    runs: tuple[RunKey, ...] = ()
    is_saved: bool = False


class Usable(NamedTuple):
    """What one set of trees can give a prompt.

    Attributes:
        num_tokens: leading tokens that may be used.
        runs: some that hold them.
        verdict: why so many.
        num_matched: leading tokens that some run holds.
    """

    num_tokens: int
    runs: tuple[RunKey, ...]
    verdict: ReuseVerdict
    num_matched: int


NOTHING: Final = Usable(0, (), ReuseVerdict.NO_MATCH, 0)


class Question(NamedTuple):
    """A prompt, and of how many leading tokens it may be relieved."""

    scope: str
    tokens: Sequence[TokenId]
    limit: int


def find_usable(
    trees: PrefixTrees, rules: ReuseRules, question: Question, is_whole: Callable[[RunKey], bool]
) -> Usable:
    """The longest usable beginning of a prompt; O(what matches).

    `is_whole` tells whether a run has its final text, so that it counts as a whole one under the rules; a running
    sequence will go on.
    """
    scope, tokens, limit = question
    longest = trees.match(scope, tokens, len(tokens))
    matched = longest.num_tokens
    if not matched:
        return NOTHING
    if matched == len(tokens) > limit and not rules.regenerate:
        return Usable(0, (), ReuseVerdict.WHOLE_PROMPT, matched)
    usable = _leaving_enough(rules, question, matched)
    if usable < 1:
        verdict = ReuseVerdict.WHOLE_PROMPT if matched >= limit else ReuseVerdict.BELOW_MINIMUM
        return Usable(0, (), verdict, matched)
    if rules.partial and usable >= rules.min_partial:
        return Usable(usable, longest.runs, ReuseVerdict.REUSED, matched)
    num_tokens, runs = _whole_run(trees, rules, question, is_whole)
    verdict = ReuseVerdict.REUSED if runs else ReuseVerdict.BELOW_MINIMUM
    return Usable(num_tokens, runs, verdict, matched)


def _whole_run(
    trees: PrefixTrees, rules: ReuseRules, question: Question, is_whole: Callable[[RunKey], bool]
) -> tuple[int, tuple[RunKey, ...]]:
    """The longest runs whose whole text the prompt begins with and may use, and their length; else no runs."""
    scope, tokens, _ = question
    found = trees.match_whole(scope, tokens, _leaving_enough(rules, question, len(tokens)))
    if found.num_tokens != _leaving_enough(rules, question, found.num_tokens):
        found = trees.match_whole(scope, tokens, len(tokens) - rules.min_suffix)
    runs = tuple([run for run in found.runs if is_whole(run)])
    return (found.num_tokens, runs) if runs else (0, ())


def _leaving_enough(rules: ReuseRules, question: Question, matched: int) -> int:
    """How many of the tokens that match may be used, so that enough are left to compute, or none of the prompt."""
    usable = min(matched, question.limit)
    return usable if usable == len(question.tokens) else min(usable, len(question.tokens) - rules.min_suffix)
