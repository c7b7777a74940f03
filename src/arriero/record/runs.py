"""Runs: the shape of the radix tree over prompts and answers, without their tokens.

A run is the prompt of one submission, and once that has ended, the prompt and the answer. Each prompt is described by
the kept run with which it shares the longest beginning, and so is the answer when its request gives its sequence back.
So any two kept runs share as many tokens as their shapes say, and a prefix cache finds the same in a replay.

Writer and reader keep the same runs: those that came, went on or were named last, within a bound of runs and a bound of
tokens, so that neither grows with the length of a journal. A beginning that is still in use is found in the later runs
that share it.

The longest common beginning of a key with any key of a sorted list is that with one of its two neighbours, so a prompt
costs two searches and no walk over a tree. Keys are bytes, four for each token, which are compared at memory speed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from struct import pack
from typing import Final, Generic, TypeVar

from arriero.core.ids import TokenId
from arriero.record.journal_parts import PromptShape

KEPT_RUNS: Final = 4096
KEPT_TOKENS: Final = 1 << 22
_WIDTH: Final = 4  # bytes of a token

T = TypeVar("T")


class RunWindow(Generic[T]):
    """The latest runs by the numbers of their submissions; the one not used for the longest time is forgotten first."""

    def __init__(self, max_runs: int = KEPT_RUNS, max_tokens: int = KEPT_TOKENS) -> None:
        """Start empty; both bounds are at least 1. The latest run is kept even if it exceeds the bound of tokens."""
        self._max_runs = max_runs
        self._max_tokens = max_tokens
        self._runs: dict[int, tuple[T, int]] = {}
        self._num_tokens = 0

    def add(self, number: int, run: T, num_tokens: int) -> list[tuple[int, T]]:
        """Keep one run more; returns those that are forgotten for it. No number comes twice."""
        self._runs[number] = (run, num_tokens)
        self._num_tokens += num_tokens
        return self._shrink()

    def extend(self, number: int, run: T, num_tokens: int) -> list[tuple[int, T]] | None:
        """Put a longer run in the place of a kept one; None if it is not kept any more."""
        if number not in self._runs:
            return None
        self._num_tokens += num_tokens - self._runs.pop(number)[1]
        self._runs[number] = (run, num_tokens)
        return self._shrink()

    def renew(self, number: int) -> None:
        """A kept run was used: it is forgotten later."""
        self._runs[number] = self._runs.pop(number)

    def get(self, number: int) -> T | None:
        """The run of this number, if it is kept."""
        kept = self._runs.get(number)
        return None if kept is None else kept[0]

    def _shrink(self) -> list[tuple[int, T]]:
        forgotten: list[tuple[int, T]] = []
        while len(self._runs) > self._max_runs or (self._num_tokens > self._max_tokens and len(self._runs) > 1):
            number = next(iter(self._runs))
            run, num_tokens = self._runs.pop(number)
            self._num_tokens -= num_tokens
            forgotten.append((number, run))
        return forgotten


class RunIndex:
    """Finds the kept run with the longest common beginning.

    Cost: O(log runs) comparisons for each verb, and one move of at most 4,096 pointers for each change.
    """

    def __init__(self, max_runs: int = KEPT_RUNS, max_tokens: int = KEPT_TOKENS) -> None:
        """Start empty."""
        self._window: RunWindow[bytes] = RunWindow(max_runs, max_tokens)
        self._keys: list[tuple[bytes, int]] = []  # sorted; equal runs by number

    def add(self, number: int, tokens: Sequence[TokenId]) -> PromptShape:
        """The shape of a prompt among the runs kept so far; then keep it too."""
        key = _key(tokens)
        shape = self._shape(key)
        self._renew(shape.earlier)
        self._settle(number, key, self._window.add(number, key, len(tokens)))
        return shape

    def extend(self, number: int, tokens: Sequence[TokenId], num_described: int) -> PromptShape:
        """The run of this number has become longer; it goes on being kept if it was.

        Returns its shape among the others. If they have no more of it than its own first `num_described` tokens, which
        were described before, it names none of them and counts these as common. So it does for a run that is not kept
        any more, since what the others have of it was described without it.
        """
        shape = PromptShape(None, num_described, len(tokens) - num_described)
        before = self._window.get(number)
        if before is None:
            return shape
        del self._keys[bisect_left(self._keys, (before, number))]
        key = _key(tokens)
        among_others = self._shape(key)
        if among_others.common > num_described:
            shape = among_others
            self._renew(shape.earlier)
        self._settle(number, key, self._window.extend(number, key, len(tokens)) or [])
        return shape

    def _renew(self, number: int | None) -> None:
        if number is not None:
            self._window.renew(number)

    def _settle(self, number: int, key: bytes, forgotten: list[tuple[int, bytes]]) -> None:
        entry = (key, number)
        self._keys.insert(bisect_left(self._keys, entry), entry)
        for old, old_key in forgotten:
            del self._keys[bisect_left(self._keys, (old_key, old))]

    def _shape(self, key: bytes) -> PromptShape:
        place = bisect_left(self._keys, (key, 0))
        earlier, common = None, 0
        for other, number in self._keys[max(0, place - 1) : place + 1]:
            length = _common_length(key, other) // _WIDTH
            if length > common:
                earlier, common = number, length
        return PromptShape(earlier, common, len(key) // _WIDTH - common)


def _key(tokens: Sequence[TokenId]) -> bytes:
    return pack(f"<{len(tokens)}i", *tokens)


def _common_length(one: bytes, other: bytes) -> int:
    """Bytes that both begin with; O(n) by halves, each compared at memory speed."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:  # equal below low, different below high
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
