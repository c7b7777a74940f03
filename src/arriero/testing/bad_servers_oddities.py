"""ODDITIES: what servers do that looks wrong and is not, and what a client has to make of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from arriero.testing.bad_servers import BadServer, Close, Hold, Pause, Reset, Script, Send
from arriero.testing.bad_servers_words import DONE, END, framed, head, stream, text, usage

_HEAD: Final = head()


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """A way to answer that is unusual and allowed.

    Attributes:
        script: after the request.
        text: of the whole answer.
        chunk_tokens: of each content chunk.
        num_tokens: as the server counts; it may lie.
    """

    script: Script
    text: str
    chunk_tokens: tuple[int, ...]
    num_tokens: int | None

    def server(self) -> BadServer:
        """A server that does it to everybody."""
        return BadServer(self.script)


def _trickled(data: bytes) -> list[Send]:
    return [Send(bytes([each])) for each in data]


def _whole(*pieces: bytes) -> bytes:
    return b"".join(each.data for each in stream(*pieces))


def _counted(words: str, total: int, reason: str | None = None) -> bytes:
    return text(words, reason, usage={"prompt_tokens": 3, "completion_tokens": total, "total_tokens": 3 + total})


def _halves(data: bytes, at: int) -> list[Send]:
    return framed(data[:at], data[at:])


_UMLAUT: Final = text("Käse ", "stop")

ODDITIES: Final[Mapping[str, Oddity]] = MappingProxyType({
    "sends byte by byte": Oddity(
        script=_trickled(_whole(text("one "), text("two ", "stop"), usage(2))),
        text="one two ", chunk_tokens=(1, 1), num_tokens=2,
    ),
    "sends everything at once": Oddity(
        script=[Send(_whole(text("one "), text("two ", "stop"), usage(2)))],
        text="one two ", chunk_tokens=(1, 1), num_tokens=2,
    ),
    "cuts a character in two at the border of HTTP chunks": Oddity(
        script=[Send(_HEAD), *_halves(_UMLAUT, _UMLAUT.index(b"\xa4")), *framed(DONE), Send(END)],
        text="Käse ", chunk_tokens=(1,), num_tokens=None,
    ),
    "ends its lines with CR LF": Oddity(
        script=[Send(_HEAD), *framed(text("one ", "stop").replace(b"\n", b"\r\n"), DONE.replace(b"\n", b"\r\n")),
                Send(END)],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "ends its lines with CR, cut after it": Oddity(
        script=[Send(_HEAD), *framed(text("one ", "stop")[:-2] + b"\r", b"\rdata: [DONE]\r\r"), Send(END)],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "says comments, ids and retry times": Oddity(
        script=stream(b": hello\n\n", b"id: 7\nretry: 100\n" + text("one ", "stop")),
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "cuts an event over several data lines": Oddity(
        script=stream(b'data: {"choices": [{"index": 0,\ndata: "text": "one ", "finish_reason": "stop"}]}\n\n'),
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "leaves out the last blank line": Oddity(
        script=[Send(_HEAD), *framed(text("one ", "stop"), b"data: [DONE]"), Send(END)],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "sends several tokens a chunk and counts them": Oddity(
        script=stream(_counted("one ", 1), _counted("two three ", 3), _counted("four", 4, "stop"), usage(4)),
        text="one two three four", chunk_tokens=(1, 2, 1), num_tokens=4,
    ),
    "holds tokens back and counts them with the next": Oddity(
        script=stream(_counted("one ", 1), _counted("", 2), _counted("two three ", 3, "stop"), usage(3)),
        text="one two three ", chunk_tokens=(1, 2), num_tokens=3,
    ),
    "sends several tokens a chunk and says nothing of it": Oddity(
        script=stream(text("one two "), text("three four", "stop"), usage(4)),
        text="one two three four", chunk_tokens=(1, 1), num_tokens=4,
    ),
    "lies about its tokens": Oddity(
        script=stream(text("one "), text("two ", "stop"), usage(1000)),
        text="one two ", chunk_tokens=(1, 1), num_tokens=1000,
    ),
    "puts usage into the chunk that ends": Oddity(
        script=stream(text("one "), text("two "),
                      text("", "stop", usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})),
        text="one two ", chunk_tokens=(1, 1), num_tokens=2,
    ),
    "gives timings instead of usage": Oddity(
        script=stream(text("one "), text("two ", "stop", timings={"prompt_n": 1, "cache_n": 2, "predicted_n": 2})),
        text="one two ", chunk_tokens=(1, 1), num_tokens=2,
    ),
    "goes on after it is done": Oddity(
        script=[Send(_HEAD), *framed(text("one ", "stop"), DONE, b": bye\n\n"), Send(END)],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "never ends its body after it is done": Oddity(
        script=[Send(_HEAD), *framed(text("one ", "stop"), DONE), Hold()],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "breaks the connection after it is done": Oddity(
        script=[Send(_HEAD), *framed(text("one ", "stop"), DONE), Pause(0.001), Reset()],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "ends its body by closing": Oddity(
        script=[Send(head(length=-1)), Send(text("one ", "stop") + DONE), Close()],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "does not say what its body is": Oddity(
        script=[Send(head(content_type=None)), *framed(text("one ", "stop"), DONE), Send(END)],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "asks to go on first": Oddity(
        script=[Send(b"HTTP/1.1 100 Continue\r\n\r\n"), *stream(text("one ", "stop"))],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
    "wants its connection closed": Oddity(
        script=[Send(head("200 OK", "text/event-stream", "connection: close")), *framed(text("one ", "stop"), DONE),
                Send(END)],
        text="one ", chunk_tokens=(1,), num_tokens=None,
    ),
})  # fmt: skip
"""What looks wrong and is not: every one is a normal end."""
