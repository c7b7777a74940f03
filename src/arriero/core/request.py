"""Request: one caller's ask, frozen once created, and the states that it passes through."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, final, overload

from arriero.core.errors import InvalidRequest, InvalidSampling
from arriero.core.ids import NO_EPOCH, Epoch, RequestId, Time, TokenId

MAX_SEED: Final = 2**32 - 1
MOST_URGENT: Final = -100
LEAST_URGENT: Final = 100


class RequestState(StrEnum):
    """Where a request is, as its scheduler sees it; `LEGAL_TRANSITIONS` is the whole machine."""

    WAITING = "waiting"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    FINISHED = "finished"


LEGAL_TRANSITIONS: Final = MappingProxyType({
    RequestState.WAITING: (RequestState.PREFILLING, RequestState.FINISHED),
    # back to waiting: preempted, its tokens kept
    RequestState.PREFILLING: (RequestState.DECODING, RequestState.WAITING, RequestState.FINISHED),
    RequestState.DECODING: (RequestState.WAITING, RequestState.FINISHED),
    RequestState.FINISHED: (),
})


class FinishReason(StrEnum):
    """Why a request ended; every request ends in exactly one of these, or is refused at the door."""

    STOP = "stop"  # an end-of-generation token, which is not emitted
    LENGTH = "length"  # max_tokens reached
    CANCELLED = "cancelled"  # asked for by a caller, a disconnect, a stop string or a time-out: see CancelReason
    ABORTED = "aborted"  # still waiting when the engine shut down
    FAILED = "failed"  # its own error; the others went on


class CancelReason(StrEnum):
    """Who asked for a cancel."""

    USER = "user"
    DISCONNECT = "disconnect"
    STOP = "stop"  # delivery found a stop string: the answer is complete
    TIMEOUT = "timeout"
    QUEUE_TIMEOUT = "queue_timeout"  # it had not started by then
    SLOW_CONSUMER = "slow_consumer"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen from a row of logits.

    `temperature` 0 is greedy: the first maximum. Everything else goes through llama.cpp's own samplers in this order:
    penalties, top-k, top-p, min-p, temperature, draw. `InvalidSampling` names a value outside its range.
    """

    temperature: float = 0.0
    top_k: int = 0  # 0 keeps all
    top_p: float = 1.0
    min_p: float = 0.0
    min_keep: int = 1
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64  # how many of the last tokens penalties look at; -1: the whole sequence
    logit_bias: tuple[tuple[TokenId, float], ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no sampler can do."""
        checks = (
            ("temperature", self.temperature, 0 <= self.temperature < float("inf"), "at least 0"),
            ("top_k", self.top_k, self.top_k >= 0, "at least 0"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", self.min_p, 0 <= self.min_p <= 1, "between 0 and 1"),
            ("top_p_min_keep", self.min_keep, self.min_keep >= 1, "at least 1"),
            ("repeat_penalty", self.repeat_penalty, 0 < self.repeat_penalty < float("inf"), "above 0"),
            ("presence_penalty", self.presence_penalty, abs(self.presence_penalty) <= 2, "between -2 and 2"),
            ("frequency_penalty", self.frequency_penalty, abs(self.frequency_penalty) <= 2, "between -2 and 2"),
            ("penalty_last_n", self.penalty_last_n, self.penalty_last_n >= -1, "at least -1"),
            ("seed", self.seed, 0 <= self.seed <= MAX_SEED, "an unsigned 32-bit integer"),
        )
        for name, value, good, rule in checks:
            if not good:
                message = f"{name} must be {rule}, not {value!r}"
                raise InvalidSampling(message, field=name)

    @property
    def is_plain_greedy(self) -> bool:
        """Whether one argmax over the untouched logits is enough."""
        return self.temperature == 0 and not self.logit_bias and not self.has_penalties

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the choice."""
        return self.repeat_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0


GREEDY: Final = SamplingParams()


@final
class BlankTokens(Sequence[TokenId]):
    """A prompt of which only the length is known: any number of tokens 0, in no memory."""

    __slots__ = ("_length",)

    def __init__(self, length: int) -> None:
        """`length` is at least 0."""
        self._length = range(length)

    @overload
    def __getitem__(self, index: int) -> TokenId: ...
    @overload
    def __getitem__(self, index: slice) -> "BlankTokens": ...
    def __getitem__(self, index: int | slice) -> "TokenId | BlankTokens":
        """One token, or a stretch of them."""
        found = self._length[index]
        return 0 if isinstance(found, int) else BlankTokens(len(found))

    def __len__(self) -> int:
        """How many."""
        return len(self._length)

    def __eq__(self, other: object) -> bool:
        """Whether the other is blank and as long."""
        return isinstance(other, BlankTokens) and self._length == other._length

    def __hash__(self) -> int:
        """By length."""
        return len(self._length)

    def __repr__(self) -> str:
        """The length."""
        return f"BlankTokens({len(self)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One caller's ask.

    Attributes:
        request_id: unique among the requests alive.
        epoch: number of its submission; 0 if it has none.
        prompt: token ids; at least one, except under rules of the simulator that allow none.
        max_tokens: the decode budget D; at least 1, with the same exception.
        arrival_at: when it arrived, on the line of whoever drives the scheduler; kept through waiting and preemption.
        end_tokens: tokens that end the answer and are not emitted; empty if the caller ignores them.
        min_tokens: end tokens are neither chosen nor obeyed before so many were emitted.
        expires_at: cancelled with `CancelReason.TIMEOUT` at the first boundary from then on; None for never.
        preloaded: handed over before the first step; step 0 computes all of these prompts at once, unmetered.
        session_id: the conversation that it belongs to, or None.
        cache_scope: requests of one scope may see one another's prefixes; None neither looks up nor leaves anything.
        priority: smaller goes first, from `MOST_URGENT` to `LEAST_URGENT`; what it is worth is the policy's matter.
        deadline_at: when its caller wants the whole answer, None if it did not say; it orders, and nothing ends then.
        start_by: ends with `CancelReason.QUEUE_TIMEOUT` if it has not taken a slot once until then; None for never.
        tenant: who pays for it in a fair share, or None, which is a tenant of its own; never shown and never logged.
    """

    request_id: RequestId
    prompt: Sequence[TokenId]
    max_tokens: int
    arrival_at: Time
    epoch: Epoch = NO_EPOCH
    sampling: SamplingParams = field(default=GREEDY)
    end_tokens: frozenset[TokenId] = frozenset()
    min_tokens: int = 0
    expires_at: Time | None = None
    preloaded: bool = False
    session_id: str | None = None
    cache_scope: str | None = None
    priority: int = 0
    deadline_at: Time | None = None
    start_by: Time | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        """Refuse a priority out of range."""
        if not MOST_URGENT <= self.priority <= LEAST_URGENT:
            message = f"priority must be between {MOST_URGENT} and {LEAST_URGENT}, not {self.priority}"
            raise InvalidRequest(message, field="priority")
