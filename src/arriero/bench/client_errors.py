"""ErrorKind: the closed list of words for what a server, or the way to it, did wrong.

A refused or failed status is not in it: its word is `http_` and the number (`status_word`).
"""

from enum import StrEnum


class ErrorKind(StrEnum):
    """One word for each kind; `ClientLife.error` holds it."""

    # before an answer
    CONNECTION_REFUSED = "connection_refused"
    CONNECTION_FAILED = "connection_failed"  # unreachable, no such host, no descriptor left ...
    TLS_FAILED = "tls_failed"
    STALE_CONNECTION = "stale_connection"  # a kept connection was closed by the server while we sent on it
    CLOSED_BEFORE_HEADERS = "closed_before_headers"
    CLOSED_IN_BODY = "closed_in_body"
    CONNECTION_RESET = "connection_reset"
    # what came is not what was promised
    MALFORMED_HTTP = "malformed_http"
    NOT_STREAMED = "not_streamed"  # a stream was asked for and one body came
    WRONG_CONTENT_TYPE = "wrong_content_type"
    MALFORMED_EVENT = "malformed_event"  # `data:` holds no JSON
    INVALID_UTF8 = "invalid_utf8"
    UNKNOWN_EVENT = "unknown_event"  # JSON, but neither chunk nor error
    MALFORMED_BODY = "malformed_body"  # the same for an answer that does not stream
    TOO_LARGE = "too_large"  # more bytes than the client is willing to keep
    ERROR_EVENT = "error_event"  # the server said `error` after the first byte
    CUT_BY_SERVER = "cut_by_server"  # it said that it ended the request on purpose: outcome `cancelled_by_server`
    NO_FINISH_REASON = "no_finish_reason"
    UNKNOWN_FINISH_REASON = "unknown_finish_reason"
    NO_DONE = "no_done"  # finish reason and end of the body, but no `[DONE]`
    # the client gave up: outcome `timeout`
    TIMEOUT_CONNECT = "timeout_connect"
    TIMEOUT_TOTAL = "timeout_total"
    TIMEOUT_SILENCE = "timeout_silence"  # nothing came for so long, before the first byte or between two


def status_word(status: int) -> str:
    """The word for an answer whose status is not 200."""
    return f"http_{status}"
