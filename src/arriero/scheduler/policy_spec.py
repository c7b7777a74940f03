"""PolicySpec: which policy, as a value; every scheduler gets a policy of its own from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from arriero.core.choices import PolicyWord
from arriero.core.config import AGEING_S
from arriero.core.ids import Time
from arriero.scheduler.fair_share import DECODE_WEIGHT, FairShare
from arriero.scheduler.longest_match import MAX_OVERTAKES, WINDOW, LongestMatch
from arriero.scheduler.policies import FirstComeFirstServed, Policy
from arriero.scheduler.ranked import EarliestDeadline, Priority, ShortestPrefill

AGEING: Final = int(AGEING_S * 1_000_000)
"""Waiting that is worth one level of priority, in microseconds."""

TOKENS_A_LEVEL: Final = 1000
"""Tokens of a prompt that count as much as one level of priority."""

LEVELS_OF_PATIENCE: Final = 6
"""A request without a deadline is taken to be due when waiting has made it so much more urgent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """Which policy.

    Attributes:
        word: a `PolicyWord`, or the name under which `own` was found, as `module:Class`.
        ageing: waiting that is worth one level of priority, on the time line of whoever drives the scheduler; prompt
            lengths and missing deadlines are measured by it as well.
        own: makes a policy of somebody's own; None for those that come with arriero.
    """

    word: str = PolicyWord.FCFS.value
    ageing: Time = AGEING
    own: Callable[[], Policy] | None = None

    @property
    def token_time(self) -> Time:
        """Waiting that is worth one token of a prompt; whole where `ageing` is."""
        return self.ageing // TOKENS_A_LEVEL if isinstance(self.ageing, int) else self.ageing / TOKENS_A_LEVEL

    @property
    def patience(self) -> Time:
        """From its arrival to when a request without a deadline is taken to be due."""
        return self.ageing * LEVELS_OF_PATIENCE

    def new(self) -> Policy:  # noqa: PLR0911 - a table
        """A fresh policy.

        Raises:
            ConfigError: `ageing` is negative.
        """
        if self.own is not None:
            return self.own()
        word = PolicyWord(self.word)
        match word:
            case PolicyWord.FCFS:
                return FirstComeFirstServed()
            case PolicyWord.PRIORITY:
                return Priority(self.ageing)
            case PolicyWord.SHORTEST_PREFILL:
                return ShortestPrefill(self.token_time)
            case PolicyWord.DEADLINE:
                return EarliestDeadline(self.patience)
            case PolicyWord.FAIR_SHARE:
                return FairShare()
            case PolicyWord.LONGEST_MATCH:
                return LongestMatch()
            case _:
                assert_never(word)

    def described(self) -> Mapping[str, Time | str]:  # noqa: PLR0911 - a table
        """Its kind, and the numbers that `new` gives it, as a journal has them."""
        if self.own is not None:
            return {"kind": "own", "name": self.word}
        word = PolicyWord(self.word)
        match word:
            case PolicyWord.FCFS:
                return {"kind": "first_come_first_served"}
            case PolicyWord.PRIORITY:
                return {"kind": "priority", "ageing": self.ageing}
            case PolicyWord.SHORTEST_PREFILL:
                return {"kind": "shortest_prefill", "token_time": self.token_time}
            case PolicyWord.DEADLINE:
                return {"kind": "earliest_deadline", "patience": self.patience}
            case PolicyWord.FAIR_SHARE:
                return {"kind": "fair_share", "decode_weight": DECODE_WEIGHT}
            case PolicyWord.LONGEST_MATCH:
                return {"kind": "longest_match", "window": WINDOW, "max_overtakes": MAX_OVERTAKES}
            case _:
                assert_never(word)


FCFS: Final = PolicySpec()
