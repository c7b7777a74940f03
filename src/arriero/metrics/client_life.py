"""ClientLife: the moments of one request as the client that sent it saw them.

Whole nanoseconds of one monotonic clock of the load generator, or of the simulator's line times 1,000. They are
stamped on receipt of the bytes, before anything is parsed; every figure and every other tool's definition is computed
from these values and from nothing else.
"""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a request ended for its client; every intended request has exactly one."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    REJECTED = "rejected"  # 429 or 503 before any token
    TIMEOUT = "timeout"  # the client gave up waiting
    ERROR = "error"  # anything else; `error` says which kind
    CANCELLED_BY_CLIENT = "cancelled_by_client"  # planned, so not a failure
    CANCELLED_BY_SERVER = "cancelled_by_server"
    NOT_SENT = "not_sent"  # the run ended, or the generator could not, before it was sent

    @property
    def is_normal(self) -> bool:
        """Whether the answer is whole."""
        return self in {Outcome.STOP, Outcome.LENGTH, Outcome.TOOL_CALLS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLife:
    """One request from its intended send to its end.

    Attributes:
        request_id: unique in its run.
        intended_at: when the schedule wants it sent; None in a closed loop, where nothing is intended.
        sent_at: just before its first byte was written; None if it never was.
        headers_at: the status line and all headers had arrived.
        chunk_at: arrival of each content chunk (text, reasoning or a piece of a tool call), ascending.
        chunk_tokens: how many tokens each of them carries, same length; from continuous usage, else 1 each.
        empty_at: arrival of the chunks with `choices` and no content: a role, an empty delta, only a finish reason.
        closed_at: the terminal event: `[DONE]`, end of the body, an error, the client's own cancel.
        status: the HTTP status, None without headers or without HTTP.
        error: a word for the kind of failure (`connection_refused`, `connection_closed`, `malformed_event`, `http_500`,
            ...); None for a normal end.
        num_tokens: the server's own count of output tokens; None if it did not say.
        prompt_tokens: the server's own count; None if it did not say.
        cached_tokens: of the prompt, as the server says; None if it did not say.
        asked_prompt_tokens: the prompt's length as sent; None if it was sent as text.
        asked_tokens: the limit on output tokens.
        text_sha256: of the whole text; None without any text or where it is not kept.
        conversation: the conversation that it belongs to; None for a request of its own.
        turn: its number in the conversation, from 0.
        connect_ns: how long opening its connection took; None on a connection used before.
        is_warm_up: declared before the run, and in no figure.
    """

    request_id: str
    intended_at: int | None
    sent_at: int | None
    closed_at: int | None
    outcome: Outcome
    asked_tokens: int
    headers_at: int | None = None
    chunk_at: tuple[int, ...] = ()
    chunk_tokens: tuple[int, ...] = ()
    empty_at: tuple[int, ...] = ()
    status: int | None = None
    error: str | None = None
    num_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    asked_prompt_tokens: int | None = None
    text_sha256: str | None = None
    conversation: str | None = None
    turn: int = 0
    connect_ns: int | None = None
    is_warm_up: bool = False

    @property
    def arrival_at(self) -> int | None:
        """Where latencies count from: the intended send in open loop, the actual one in closed loop."""
        return self.sent_at if self.intended_at is None else self.intended_at
