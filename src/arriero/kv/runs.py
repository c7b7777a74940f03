"""Runs: computed tokens on sequence ids, and how a prompt finds them.

A running sequence's prompt is found as far as it is computed; what it decodes, once its request has ended. Prompts
under way are also in a tree of their own, whole, so that a prompt that begins like one of them can wait for it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from arriero.core.events import ReuseVerdict
from arriero.core.ids import SequenceId, Time, TokenId
from arriero.kv.host_books import HostBooks
from arriero.kv.ledger import require
from arriero.kv.lookups import NOTHING, Question, RunHit, Usable, find_usable
from arriero.kv.protocol import NO_HIT, PrefixHit
from arriero.kv.reuse import ReuseRules
from arriero.prefix.cache import PrefixTrees, RunKey

NO_SCOPE: Final = PrefixHit(0, verdict=ReuseVerdict.NO_SCOPE)


class Prompt(NamedTuple):
    """What a request asked with, and who may start from it."""

    scope: str
    tokens: Sequence[TokenId]


class Run:
    """What one sequence holds, for others to start from.

    Attributes:
        key: its name in the trees; never used again.
        sequence_id: where it lies.
        is_retained: whether its request has ended.
        is_resting: whether a cancel ended it in this step, so that its id may not be taken yet.
        is_withdrawn: whether memory refused something of it, so that nobody may start from it any more.
        tick: when it was retained or used; larger is later.
        at: the same on the driver's time line.
        num_hits: how often a request started from it.
    """

    __slots__ = ("at", "is_resting", "is_retained", "is_withdrawn", "key", "num_hits", "sequence_id", "tick")

    def __init__(self, key: RunKey, sequence_id: SequenceId) -> None:
        """A running sequence, of which nothing is found yet."""
        self.key = key
        self.sequence_id = sequence_id
        self.is_retained = False
        self.is_resting = False
        self.is_withdrawn = False
        self.tick = 0
        self.at: Time = 0
        self.num_hits = 0


class Holding:
    """A running sequence: what was asked, and its run; neither where nobody may start from it.

    Attributes:
        num_published: computed tokens of which its manager was told.
    """

    __slots__ = ("num_published", "prompt", "run")

    def __init__(self, prompt: Prompt | None, run: Run | None) -> None:
        """Nothing was told yet."""
        self.prompt = prompt
        self.run = run
        self.num_published = 0


class Runs:
    """All runs on sequence ids, running and retained.

    Attributes:
        trees: where those are found that hold anything yet.
    """

    def __init__(self, rules: ReuseRules | None, host: HostBooks) -> None:
        """Start empty; without rules nothing is ever found."""
        self.trees = PrefixTrees()
        self._under_way = PrefixTrees()
        self._rules = rules
        self._host = host
        self._by_key: dict[RunKey, Run] = {}
        self._num_minted = 0

    # ── what a prompt finds ─────────────────────────────────────────────────────────────────────────────────────────

    def lookup(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> PrefixHit:
        """The longest usable beginning, on a sequence id if the host store has no longer one."""
        rules = self._rules
        if rules is None:
            return NO_HIT
        if scope is None:
            return NO_SCOPE
        question = Question(scope, tokens, limit)
        found, is_saved = find_usable(self.trees, rules, question, self._is_retained), False
        if len(self._host):
            saved = find_usable(self._host.trees, rules, question, lambda _: True)
            found, is_saved = better(found, saved, rules.min_restored)
        return RunHit(
            found.num_tokens,
            scope,
            tokens,
            found.runs,
            is_saved,
            verdict=found.verdict,
            num_matched=found.num_matched,
        )

    def foreseen(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> int:
        """The longest usable beginning of a prompt under way."""
        return self._under_way_for(tokens, scope, limit).num_tokens

    def leader(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> SequenceId | None:
        """Where that prompt is being computed; of several the one that was begun first, among the latest few."""
        keys = self._under_way_for(tokens, scope, limit).runs
        return self._by_key[keys[-1]].sequence_id if keys else None

    def origin(self, hit: RunHit) -> Run | None:
        """One run of a hit that still holds its tokens: a retained one, if there is one.

        Of a session's runs the one used last, of others the one made last.
        """
        if hit.is_saved or not hit.num_tokens:
            return None
        runs = [self._by_key[key] for key in hit.runs if key in self._by_key]
        per_session = self._rules is not None and self._rules.per_session
        runs.sort(key=lambda run: -run.tick if per_session else not run.is_retained)
        # A run that was cut and went on another way since the lookup is the same run with another text.
        return next((run for run in runs if self.holds(run, hit)), None)

    def holds(self, run: Run, hit: RunHit) -> bool:
        """Whether a run begins with what a hit found, so that it would do as well as those that the hit names."""
        is_found = run.key in self.trees and self.trees.scope(run.key) == hit.scope
        return is_found and self.trees.common(run.key, hit.tokens, hit.num_tokens) == hit.num_tokens

    def held_elsewhere(self, holding: Holding) -> int:
        """How many leading tokens of a running sequence's prompt some other run holds."""
        if holding.run is None or holding.prompt is None:
            return 0
        own, (scope, tokens) = holding.run.key, holding.prompt

        def is_own_alone(length: int) -> bool:
            found = self.trees.match(scope, tokens, length)
            return found.num_tokens < length or all(key == own for key in found.runs)

        # A run that holds more holds all that comes before, too.
        return bisect_left(range(1, len(tokens) + 1), True, key=is_own_alone)  # noqa: FBT003 - looked for

    # ── what runs hold ──────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, sequence_id: SequenceId) -> Run:
        """A running sequence whose tokens may be found later on."""
        self._num_minted += 1
        key = RunKey(self._num_minted)
        run = self._by_key[key] = Run(key, sequence_id)
        return run

    def foresee(self, run: Run, prompt: Prompt) -> None:
        """A running sequence is about to compute its prompt."""
        if self._rules is not None and self._rules.follows and not self._rules.per_session:
            self._under_way.insert(prompt.scope, run.key, prompt.tokens)

    def publish(self, run: Run, prompt: Prompt, length: int) -> None:
        """The first `length` tokens of a running sequence are computed; those of its prompt are found from now on."""
        if self._rules is None or self._rules.per_session or run.is_withdrawn:
            return
        if length >= len(prompt.tokens):
            self.foresee_no_more(run)
        computed = prompt.tokens[:length]
        if len(computed) > self.length(run):
            self.trees.insert(prompt.scope, run.key, computed)

    def foresee_no_more(self, run: Run) -> None:
        """A running sequence has computed its prompt, or never will."""
        if run.key in self._under_way:
            self._under_way.withdraw(run.key)

    def hold(self, run: Run, scope: str, tokens: Sequence[TokenId]) -> None:
        """Let a run be found with exactly these tokens; what it was found with is a beginning of them, or longer."""
        if run.key in self.trees and self.trees.length(run.key) > len(tokens):
            self.trees.truncate(run.key, len(tokens))
        else:
            self.trees.insert(scope, run.key, tokens)

    def hide(self, run: Run) -> None:
        """Let a run be found no more."""
        self.foresee_no_more(run)
        if run.key in self.trees:
            self.trees.withdraw(run.key)

    def end(self, run: Run) -> None:
        """Forget a run."""
        self.hide(run)
        del self._by_key[run.key]

    def of(self, key: RunKey) -> Run | None:
        """The run of a key, if it is still there."""
        return self._by_key.get(key)

    def length(self, run: Run) -> int:
        """Tokens with which a run is found."""
        return self.trees.length(run.key) if run.key in self.trees else 0

    def check(self) -> None:
        """Verify the trees from scratch, in O(tokens)."""
        self.trees.check()
        self._under_way.check()
        found = {key for key in self._by_key if key in self.trees}
        under_way = {key for key, run in self._by_key.items() if key in self._under_way and not run.is_retained}
        rules = (
            (len(found) == len(self.trees), "a tree has a run that nobody knows"),
            (len(under_way) == len(self._under_way), "a prompt is foreseen that nobody computes"),
        )
        require(rules, f"runs {sorted(self._by_key)}, found {sorted(found)}, under way {sorted(under_way)}")

    def _under_way_for(self, tokens: Sequence[TokenId], scope: str | None, limit: int) -> Usable:
        if self._rules is None or scope is None or not len(self._under_way):
            return NOTHING
        return find_usable(self._under_way, self._rules, Question(scope, tokens, limit), lambda _: False)

    def _is_retained(self, key: RunKey) -> bool:
        return self._by_key[key].is_retained


def better(found: Usable, saved: Usable, min_restored: int) -> tuple[Usable, bool]:
    """What is used, and whether it comes from the host store."""
    if found.verdict is ReuseVerdict.WHOLE_PROMPT or saved.verdict is ReuseVerdict.NO_MATCH:
        return found, False
    if saved.verdict is ReuseVerdict.WHOLE_PROMPT or saved.num_tokens - found.num_tokens >= min_restored:
        return saved, True
    if found.num_tokens or found.num_matched >= saved.num_matched:
        return found, False
    return Usable(0, (), ReuseVerdict.BELOW_MINIMUM, saved.num_matched), False
