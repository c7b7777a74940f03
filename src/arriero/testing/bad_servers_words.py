"""The parts that scripts of bad servers are made of: heads, events, framing."""

import json
from typing import Any, Final

from arriero.testing.bad_servers import Send

DONE: Final = b"data: [DONE]\n\n"
END: Final = b"0\r\n\r\n"


def head(
    status: str = "200 OK", content_type: str | None = "text/event-stream", *more: str, length: int | None = None
) -> bytes:
    """Status line and headers; chunked unless a length is given, neither if it is negative."""
    lines = [f"HTTP/1.1 {status}"]
    if content_type is not None:
        lines.append(f"content-type: {content_type}")
    if length is None:
        lines.append("transfer-encoding: chunked")
    elif length >= 0:
        lines.append(f"content-length: {length}")
    return "".join(f"{line}\r\n" for line in (*lines, *more, "")).encode()


def event(value: object) -> bytes:
    """A `data:` line with JSON, and its blank line."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def text(words: str, reason: str | None = None, **more: Any) -> bytes:  # noqa: ANN401 - further fields of the chunk
    """A chunk of a completion."""
    return event({"choices": [{"index": 0, "text": words, "finish_reason": reason}], **more})


def delta(reason: str | None = None, **fields: Any) -> bytes:  # noqa: ANN401 - fields of the delta
    """A chunk of a chat."""
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]})


def usage(num_tokens: int, num_prompt_tokens: int = 3, cached: int | None = None) -> bytes:
    """The chunk with usage alone."""
    return event({"choices": [], "usage": usage_of(num_tokens, num_prompt_tokens, cached)})


def usage_of(num_tokens: int, num_prompt_tokens: int = 3, cached: int | None = None) -> dict[str, Any]:
    """The value of `usage`."""
    found: dict[str, Any] = {
        "prompt_tokens": num_prompt_tokens,
        "completion_tokens": num_tokens,
        "total_tokens": num_prompt_tokens + num_tokens,
    }
    return found if cached is None else {**found, "prompt_tokens_details": {"cached_tokens": cached}}


def framed(*pieces: bytes) -> list[Send]:
    """Each piece as an HTTP chunk of its own, sent apart."""
    return [Send(b"%x\r\n%b\r\n" % (len(piece), piece)) for piece in pieces]


def stream(*pieces: bytes) -> list[Send]:
    """A whole answer: head, each piece in a chunk of its own, `[DONE]`, end."""
    return [Send(head()), *framed(*pieces, DONE), Send(END)]


def body(data: bytes, status: str = "200 OK", content_type: str | None = "application/json", *more: str) -> list[Send]:
    """An answer that is one body."""
    return [Send(head(status, content_type, *more, length=len(data)) + data)]
