"""Parts of a request's life, and what an explanation of it says.

    arrival ... first token ... last token ... end ... last byte
    |  until_first  |  between  | closing | delivery |

Each stretch is split by what the time went to. Whole microseconds, none negative, and the parts of a stretch add up to
it exactly, whatever was rounded on the way.

    queue           waiting for a slot, before the first start; tokenising and the step under way included
    prefix          the same, while somebody else computed the prefix from which this request then started
    own_prefill     its own prompt rows
    others_prefill  the prompt rows of others, while it held a slot; `Explanation.others` says whose
    decode          the decode rows of steps in which it had one of its own
    others_decode   the decode rows of others, in steps in which it had none, since its prompt was under way
    preempted       waiting for a slot again, after it lost its first one
    swap            its KV went to the host store, or came back
    recomputed      prompt rows for positions that it had computed before it was preempted
    redone          decode calls that gave nothing: interrupted, failed, or without room
    host            all that the engine does beside its decode calls, and between two steps
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import add, sub
from typing import Final, NamedTuple


class Part(StrEnum):
    """What time went to; see above."""

    QUEUE = "queue"
    PREFIX = "prefix"
    OWN_PREFILL = "own_prefill"
    OTHERS_PREFILL = "others_prefill"
    DECODE = "decode"
    OTHERS_DECODE = "others_decode"
    PREEMPTED = "preempted"
    SWAP = "swap"
    RECOMPUTED = "recomputed"
    REDONE = "redone"
    HOST = "host"


PARTS: Final = tuple(Part)
(
    QUEUE, PREFIX, OWN_PREFILL, OTHERS_PREFILL, DECODE, OTHERS_DECODE, PREEMPTED, SWAP, RECOMPUTED, REDONE, HOST,
) = range(len(PARTS))  # fmt: skip
"""Places in a `Split`."""


class Basis(StrEnum):
    """How the time of a step is divided among its rows."""

    COST = "cost_model"  # by what each would cost: see `explain_shares`
    ROWS = "rows"  # in proportion to their number


class State(StrEnum):
    """How far a request has come, or how it ended."""

    WAITING = "waiting"
    RUNNING = "running"
    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ABORTED = "aborted"
    FAILED = "failed"
    REFUSED = "refused"
    UNFINISHED = "unfinished"  # the run ended before it did

    @property
    def is_alive(self) -> bool:
        """Whether more is to come."""
        return self in {State.WAITING, State.RUNNING}


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of time.

    Attributes:
        values: microseconds in the order of `PARTS`.
    """

    values: tuple[int, ...] = (0,) * len(PARTS)

    @classmethod
    def only(cls, part: int, time: int) -> "Split":
        """One part, by its place in `PARTS`."""
        return cls(tuple(time if place == part else 0 for place in range(len(PARTS))))

    def __add__(self, other: "Split") -> "Split":
        return Split(tuple(map(add, self.values, other.values)))

    def __sub__(self, other: "Split") -> "Split":
        return Split(tuple(map(sub, self.values, other.values)))

    @property
    def total(self) -> int:
        """The whole stretch."""
        return sum(self.values)

    @property
    def named(self) -> dict[str, int]:
        """By the words of `Part`; parts of no time are left out."""
        return {part.value: time for part, time in zip(PARTS, self.values, strict=True) if time}

    def of(self, part: Part) -> int:
        """One part; `HOST` and the like are places, not parts."""
        return self.values[PARTS.index(part)]


NOTHING: Final = Split()


class Share(NamedTuple):
    """What one request is to blame for."""

    request_id: int | None  # None: several, each of less than those that are named; or nobody can be named
    time: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Between two tokens of a request, with more in it than a decode step and the host.

    Attributes:
        index: of the token at its end; 1 is the second one.
        at: when that token came.
        split: of the gap.
        others: whose prompt rows were in it, the longest first.
    """

    index: int
    at: int
    split: Split
    others: tuple[Share, ...]


class Ending(NamedTuple):
    """Why a request ended.

    Attributes:
        state: how.
        detail: who cancelled, or the code or class of the error; None for a normal end.
    """

    state: State
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Points of time of one request, microseconds on the line of the run; None for what never came.

    Attributes:
        until: its end; for one that is alive, the last boundary between two steps.
    """

    arrival: int
    started: int | None
    first_token: int | None
    last_token: int | None
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where the time of one request went.

    Attributes:
        moments: its points of time.
        prompt_tokens: length of its prompt.
        cached_tokens: those that it did not compute itself when it started first.
        num_tokens: emitted so far.
        num_preemptions: how often it lost its slot.
        until_first: from arrival to the first token; to the end, where there was none.
        between: from the first token to the last one.
        closing: from the last token to the end: the step that gave an end token, or the time until a cancel was seen.
        others: whose prompt rows it waited for while it held a slot, the longest first; adds up to that part.
        leaders: who computed the prefix that it waited for; adds up to that part.
        gaps: the longest gaps with something to explain, in the order of their tokens.
        basis: how steps were divided.
    """

    request_id: int
    ending: Ending
    moments: Moments
    prompt_tokens: int
    cached_tokens: int
    num_tokens: int
    num_preemptions: int
    until_first: Split
    between: Split
    closing: Split
    others: tuple[Share, ...]
    leaders: tuple[Share, ...]
    gaps: tuple[Gap, ...]
    basis: Basis

    @property
    def split(self) -> Split:
        """From arrival to the end."""
        return self.until_first + self.between + self.closing

    @property
    def total(self) -> int:
        """How long it took: from arrival to the end, or until now."""
        return self.moments.until - self.moments.arrival

    @property
    def ttft(self) -> int | None:
        """First token - arrival; None without a token."""
        return None if self.moments.first_token is None else self.until_first.total

    @property
    def e2e(self) -> int | None:
        """Last token - arrival, or end - arrival without a token; None as long as more is to come."""
        if self.ending.state.is_alive or self.ending.state is State.UNFINISHED:
            return None
        return self.until_first.total + self.between.total


def ranked(shares: Sequence[Share]) -> tuple[Share, ...]:
    """The longest first; of equal ones the one that came first. What is not named comes last."""
    return tuple(sorted(shares, key=lambda share: (share.request_id is None, -share.time)))
