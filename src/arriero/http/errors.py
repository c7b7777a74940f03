"""One table: error class → status and code in both dialects, and the headers that go with them.

The native dialect has the codes of the control plane (`server_busy`, `invalid_argument` ...), the OpenAI dialect those
of the public interface. The body has the same four fields in both: `message`, `type`, `param`, `code`.
"""

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

import msgspec

from arriero.core.errors import (
    ArrieroError,
    CallerError,
    ContextTooLong,
    DeadlineHopeless,
    Draining,
    EngineFault,
    InvalidRequest,
    InvalidSampling,
    KeyLimit,
    PayloadTooLarge,
    QueueFull,
    QueueTimeout,
    Refused,
    Unauthorized,
    UnknownModel,
    UnknownRequest,
    Unsupported,
)
from arriero.core.request import CancelReason


class Dialect(Enum):
    """Whose words an endpoint speaks."""

    NATIVE = "native"
    OPENAI = "openai"


class MalformedBody(InvalidRequest):
    """The body is no JSON object, or a field is missing or has the wrong type."""


class NoSuchPath(CallerError):
    """No endpoint has this path."""


class WrongMethod(CallerError):
    """The path exists, but not for this method."""


class HeadersTooLarge(CallerError):
    """The request line and headers exceed what the server reads."""


class TooSlow(CallerError):
    """The request line, the headers or the body did not come in time."""


class AnswerCut(ArrieroError):
    """The request was cancelled by somebody else than its reader, so that its answer has no regular end.

    Attributes:
        reason: who asked for the cancel.
    """

    def __init__(self, reason: CancelReason) -> None:
        """Word the message by the reason."""
        super().__init__(CUT_MESSAGES[reason])
        self.reason = reason


class Kind(msgspec.Struct, frozen=True):
    """A row of the table.

    Attributes:
        status: HTTP status of the OpenAI dialect, and of the native one unless `native_status` differs.
        type: `error.type` in both dialects.
        code: `error.code` of the OpenAI dialect; None is sent as null.
        native_code: `error.code` of the native dialect; None: as `code`.
        final: a repeat cannot help; said as `x-should-retry: false`.
    """

    status: int
    type: str
    code: str | None
    native_code: str | None = None
    native_status: int | None = None
    final: bool = True


CALLER: Final = "invalid_request_error"
OURS: Final = "server_error"
LIMIT: Final = "rate_limit_error"

TABLE: Final = MappingProxyType({
    MalformedBody: Kind(400, CALLER, None, "bad_request"),
    InvalidSampling: Kind(400, CALLER, None, "invalid_sampling", 422),
    ContextTooLong: Kind(400, CALLER, "context_length_exceeded", "invalid_argument", 422),
    PayloadTooLarge: Kind(413, CALLER, "payload_too_large"),
    Unsupported: Kind(400, CALLER, "unsupported_parameter", "invalid_argument", 422),
    InvalidRequest: Kind(400, CALLER, None, "invalid_argument", 422),
    Unauthorized: Kind(401, CALLER, "invalid_api_key"),
    UnknownModel: Kind(404, CALLER, "model_not_found"),
    UnknownRequest: Kind(404, CALLER, "request_not_found"),
    NoSuchPath: Kind(404, CALLER, "not_found"),
    WrongMethod: Kind(405, CALLER, "method_not_allowed"),
    HeadersTooLarge: Kind(431, CALLER, "headers_too_large"),
    TooSlow: Kind(408, CALLER, "request_too_slow"),
    CallerError: Kind(400, CALLER, None, "bad_request"),
    QueueFull: Kind(503, OURS, "server_is_overloaded", "server_busy", final=False),
    KeyLimit: Kind(429, LIMIT, "rate_limit_exceeded", final=False),
    QueueTimeout: Kind(503, OURS, "queue_timeout", final=False),
    DeadlineHopeless: Kind(503, OURS, "deadline_hopeless", final=False),
    Draining: Kind(503, OURS, "unavailable", final=False),
    Refused: Kind(503, OURS, "unavailable", final=False),
    EngineFault: Kind(500, OURS, "engine_error", final=False),
    ArrieroError: Kind(500, OURS, "internal_error", final=False),
})
"""Every error class that can reach a client; a class without a row of its own is answered by its nearest base."""

CUTS: Final = MappingProxyType({
    CancelReason.USER: Kind(409, CALLER, "request_cancelled"),
    CancelReason.STOP: Kind(409, CALLER, "request_cancelled"),
    CancelReason.DISCONNECT: Kind(499, CALLER, "client_closed_request"),
    CancelReason.TIMEOUT: Kind(408, CALLER, "request_timeout"),
    CancelReason.QUEUE_TIMEOUT: Kind(503, OURS, "queue_timeout", final=False),
    CancelReason.SLOW_CONSUMER: Kind(408, CALLER, "slow_consumer"),
    CancelReason.SHUTDOWN: Kind(503, OURS, "unavailable", final=False),
})
"""`AnswerCut` by its reason."""

CUT_MESSAGES: Final = MappingProxyType({
    CancelReason.USER: "the request was cancelled",
    CancelReason.STOP: "the request was cancelled",
    CancelReason.DISCONNECT: "the client closed the connection",
    CancelReason.TIMEOUT: "timeout_ms elapsed before the answer was complete; allow more time or fewer tokens",
    CancelReason.QUEUE_TIMEOUT: "the request did not begin in time; try again later",
    CancelReason.SLOW_CONSUMER: "the client read too slowly and the answer was cut; read faster or do not stream",
    CancelReason.SHUTDOWN: "the server is shutting down and the answer was cut",
})

RETRY_AFTER_S: Final = 1
RETRIED: Final = (429, 503)
"""What is refused for now, so that clients are told when to come again."""

OUR_MISTAKE: Final = "the server made a mistake; its log says which"


class ErrorObject(msgspec.Struct, frozen=True):
    """The inner object of every error body."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    """Every error body."""

    error: ErrorObject


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it goes out.

    Attributes:
        headers: beside `content-type` and `content-length`.
    """

    status: int
    code: str | None
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]


def kind_of(error: ArrieroError) -> Kind:
    """The row of an error: its own class's, else that of the nearest base."""
    if isinstance(error, AnswerCut):
        return CUTS[error.reason]
    # the root has a row, so the search cannot fail
    return next(TABLE[each] for each in type(error).__mro__ if each in TABLE)


def failure(error: ArrieroError, dialect: Dialect) -> Failure:
    """Status, body and headers for an error in a dialect."""
    kind = kind_of(error)
    status, code = kind.status, kind.code
    if dialect is Dialect.NATIVE:
        status, code = kind.native_status or status, kind.native_code or code
    field = error.field if isinstance(error, CallerError) else None
    body = msgspec.json.encode(ErrorBody(ErrorObject(str(error), kind.type, field, code)))
    return Failure(status, code, body, _headers(error, kind, status))


def _headers(error: ArrieroError, kind: Kind, status: int) -> tuple[tuple[bytes, bytes], ...]:
    headers: list[tuple[bytes, bytes]] = []
    if kind.final:
        headers.append((b"x-should-retry", b"false"))
    if status in RETRIED:
        seconds = error.retry_after_s if isinstance(error, Refused) else RETRY_AFTER_S
        headers.append((b"retry-after", str(seconds).encode()))
    if isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", b"Bearer"))
    return tuple(headers)
