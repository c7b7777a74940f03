"""MISBEHAVIOURS: what servers do wrong, and the word that a client has to find for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from arriero.bench.client_errors import ErrorKind
from arriero.metrics.client_life import Outcome
from arriero.testing.bad_servers import BadServer, Close, Hold, Pause, Reset, Script, Send
from arriero.testing.bad_servers_words import END, body, event, framed, head, stream, text, usage

_TWO: Final = (text("one "), text("two "))
_HEAD: Final = head()
_STILL_HERE: Final[Script] = [*framed(b": still here\n\n"), Pause(0.01)] * 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Misbehaviour:
    """One way to misbehave when a completion is to be streamed.

    Attributes:
        script: after the request; `greeting` as soon as somebody connects.
        outcome: the client's.
        errors: the words that are right; several where it depends on the system what a client is told.
        num_chunks: content chunks that the client has seen all the same; None where that depends as well.
        silence_s, total_s: limits without which it would last for ever.
        max_answer_bytes: the client's limit, where that is what it is about.
    """

    script: Script = ()
    greeting: Script = ()
    outcome: Outcome = Outcome.ERROR
    errors: frozenset[str]
    num_chunks: int | None = 0
    silence_s: float | None = None
    total_s: float | None = None
    max_answer_bytes: int | None = None

    def server(self) -> BadServer:
        """A server that does it to everybody."""
        return BadServer(self.script, greeting=self.greeting)


def _does(
    script: Script,
    *errors: str,
    outcome: Outcome = Outcome.ERROR,
    num_chunks: int | None = 0,
    silence_s: float | None = None,
    total_s: float | None = None,
    max_answer_bytes: int | None = None,
) -> Misbehaviour:
    return Misbehaviour(
        script=script,
        errors=frozenset(errors),
        outcome=outcome,
        num_chunks=num_chunks,
        silence_s=silence_s,
        total_s=total_s,
        max_answer_bytes=max_answer_bytes,
    )


_CLOSES: Final = {
    "closes as soon as somebody connects": Misbehaviour(
        script=[Hold()],
        greeting=[Close()],
        errors=frozenset({ErrorKind.CLOSED_BEFORE_HEADERS, ErrorKind.CONNECTION_RESET}),
    ),
    "closes after the request": _does([Close()], ErrorKind.CLOSED_BEFORE_HEADERS),
    "closes in the status line": _does([Send(b"HTTP/1.1 20"), Close()], ErrorKind.CLOSED_BEFORE_HEADERS),
    "closes in the headers": _does([Send(_HEAD[:40]), Close()], ErrorKind.CLOSED_BEFORE_HEADERS),
    "closes after the headers": _does([Send(_HEAD), Close()], ErrorKind.CLOSED_IN_BODY),
    "closes in the first event": _does(
        [Send(_HEAD), Send(framed(text("one "))[0].data[:30]), Close()], ErrorKind.CLOSED_IN_BODY
    ),
    "closes between two chunks": _does([Send(_HEAD), *framed(*_TWO), Close()], ErrorKind.CLOSED_IN_BODY, num_chunks=2),
    "closes after the finish reason": _does(
        [Send(_HEAD), *framed(*_TWO, text("", "stop")), Close()], ErrorKind.CLOSED_IN_BODY, num_chunks=2
    ),
    "closes in a body of known length": _does(
        [Send(head(length=500) + text("one ")), Close()], ErrorKind.CLOSED_IN_BODY, num_chunks=1
    ),
    "resets after the request": _does([Reset()], ErrorKind.CONNECTION_RESET),
    "resets between two chunks": _does(
        [Send(_HEAD), *framed(*_TWO), Reset()], ErrorKind.CONNECTION_RESET, num_chunks=None
    ),
}

_SAYS_WRONG_THINGS: Final = {
    "speaks no HTTP": _does([Send(b"hello, who is there?\r\n\r\n")], ErrorKind.MALFORMED_HTTP),
    "frames its chunks wrongly": _does(
        [Send(_HEAD), *framed(*_TWO), Send(b"zz\r\nrubbish\r\n")], ErrorKind.MALFORMED_HTTP, num_chunks=2
    ),
    "sends an event that is no JSON": _does(
        stream(text("one "), b'data: {"choices": [{"te\n\n', text("two ", "stop")),
        ErrorKind.MALFORMED_EVENT, num_chunks=2,
    ),
    "sends half a character as an event": _does(
        stream(text("one "), b'data: {"choices": [{"index": 0, "text": "\xc3"}]}\n\n', text("two ", "stop")),
        ErrorKind.INVALID_UTF8, num_chunks=2,
    ),
    "sends an event of another kind": _does(
        stream(text("one "), event({"weather": "fine"}), text("two ", "stop")), ErrorKind.UNKNOWN_EVENT, num_chunks=2
    ),
    "sends an event that is no object": _does(
        stream(text("one "), event(7), text("two ", "stop")), ErrorKind.UNKNOWN_EVENT, num_chunks=2
    ),
    "gives no finish reason": _does(stream(*_TWO), ErrorKind.NO_FINISH_REASON, num_chunks=2),
    "gives a finish reason nobody knows": _does(
        stream(*_TWO, text("", "tired")), ErrorKind.UNKNOWN_FINISH_REASON, num_chunks=2
    ),
    "does not say that it is done": _does(
        [Send(_HEAD), *framed(*_TWO, text("", "stop"), usage(2)), Send(END)], ErrorKind.NO_DONE, num_chunks=2
    ),
    "says an error in the stream": _does(
        stream(*_TWO, event({"error": {"message": "out of memory", "code": 500}})),
        ErrorKind.ERROR_EVENT, num_chunks=2,
    ),
    "says an error as an event of that name": _does(
        stream(*_TWO, b'event: error\ndata: {"message": "no"}\n\n'), ErrorKind.ERROR_EVENT, num_chunks=2
    ),
    "sends a page of HTML": _does(body(b"<html>hello</html>", "200 OK", "text/html"), ErrorKind.WRONG_CONTENT_TYPE),
    "sends one body instead of a stream": _does(
        body(b'{"choices": [{"index": 0, "text": "one two", "finish_reason": "stop"}]}'),
        ErrorKind.NOT_STREAMED, num_chunks=1,
    ),
    "sends more than anybody wants": _does(
        stream(*_TWO, text("many " * 400), text("", "stop")), ErrorKind.TOO_LARGE, num_chunks=3,
        max_answer_bytes=1000,
    ),
}  # fmt: skip

_REFUSES: Final = {
    "is busy (429)": _does(
        body(b'{"error": {"message": "slow down"}}', "429 Too Many Requests", "application/json", "retry-after: 3"),
        "http_429", outcome=Outcome.REJECTED,
    ),
    "is busy (503)": _does(
        body(b'{"error": {"message": "queue is full"}}', "503 Service Unavailable", "application/json",
             "retry-after: 7"),
        "http_503", outcome=Outcome.REJECTED,
    ),
    "fails (500)": _does(body(b'{"error": {"message": "oh"}}', "500 Internal Server Error"), "http_500"),
    "refuses (400)": _does(body(b'{"error": {"message": "prompt"}}', "400 Bad Request"), "http_400"),
    "has a gateway that fails in HTML": _does(
        body(b"<html>bad gateway</html>", "502 Bad Gateway", "text/html"), "http_502"
    ),
    "cuts the request before it begins (409)": _does(
        body(b'{"error": {"message": "cut", "code": "request_cancelled"}}', "409 Conflict"),
        "http_409", outcome=Outcome.CANCELLED_BY_SERVER,
    ),
    "cuts the answer": _does(
        [Send(_HEAD), *framed(*_TWO, event({"error": {"message": "cut", "code": "request_cancelled"}})), Send(END)],
        ErrorKind.CUT_BY_SERVER, outcome=Outcome.CANCELLED_BY_SERVER, num_chunks=2,
    ),
    "aborts the answer": _does(
        stream(*_TWO, text("", "abort")), ErrorKind.CUT_BY_SERVER, outcome=Outcome.CANCELLED_BY_SERVER, num_chunks=2
    ),
}  # fmt: skip

_LINGERS: Final = {
    "never answers": _does([Hold()], ErrorKind.TIMEOUT_SILENCE, outcome=Outcome.TIMEOUT, silence_s=0.05),
    "stalls in the middle": _does(
        [Send(_HEAD), *framed(*_TWO), Hold()],
        ErrorKind.TIMEOUT_SILENCE, outcome=Outcome.TIMEOUT, num_chunks=2, silence_s=0.05,
    ),
    "only says that it is still there": _does(
        [Send(_HEAD), *_STILL_HERE],
        ErrorKind.TIMEOUT_TOTAL, outcome=Outcome.TIMEOUT, silence_s=0.05, total_s=0.15,
    ),
}  # fmt: skip

MISBEHAVIOURS: Final[Mapping[str, Misbehaviour]] = MappingProxyType({
    **_CLOSES, **_SAYS_WRONG_THINGS, **_REFUSES, **_LINGERS,
})  # fmt: skip
"""By what it does, in words."""
