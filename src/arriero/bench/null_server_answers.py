"""The bytes of a null server's answers, made once for each shape and length of prompt."""

from typing import Any, Final, NamedTuple

import msgspec

from arriero.bench.ask import Endpoint
from arriero.bench.null_server_options import NullOptions

MAX_SHAPES: Final = 1024
WORD: Final = " a"

_encode: Final = msgspec.json.Encoder().encode

STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nserver: arriero-null\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
DONE: Final = b"data: [DONE]\n\n"
LAST_CHUNK: Final = b"0\r\n\r\n"


class StreamOptions(msgspec.Struct):
    """`stream_options`."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class NullBody(msgspec.Struct):
    """As much of a request's body as changes its answer; a text's bytes and a chat's messages count as its tokens."""

    prompt: list[int] | str = ""
    messages: list[msgspec.Raw] = []
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None

    @property
    def num_prompt_tokens(self) -> int:
        """As usage counts it."""
        prompt = self.prompt
        return len(self.messages) + (len(prompt.encode()) if isinstance(prompt, str) else len(prompt))


class Shape(NamedTuple):
    """What two answers with the same bytes have in common."""

    endpoint: Endpoint
    num_chunks: int
    is_stream: bool
    usage: StreamOptions | None
    num_prompt_tokens: int


class AnswerMaker:
    """Makes answers, and keeps those it has made."""

    def __init__(self, options: NullOptions) -> None:
        """Nothing is made yet."""
        self._options = options
        self._made: dict[tuple[Any, ...], tuple[bytes, ...]] = {}

    def shape(self, endpoint: Endpoint, body: NullBody) -> Shape:
        """The shape of the answer to a request."""
        limit = body.max_completion_tokens or body.max_tokens or 1
        num_chunks = self._options.num_chunks or -(-limit // self._options.tokens_per_chunk)
        return Shape(endpoint, num_chunks, body.stream, body.stream_options, body.num_prompt_tokens)

    def pieces(self, shape: Shape) -> tuple[bytes, ...]:
        """What leaves with each chunk, the head with the first; one piece if the answer is one body."""
        usage = shape.usage
        asked = (usage.include_usage, usage.continuous_usage_stats) if usage is not None else (False, False)
        counts_prompt = any(asked) or not shape.is_stream
        key = (shape[:3], asked, shape.num_prompt_tokens if counts_prompt else None)
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= MAX_SHAPES:
                self._made.clear()
            made = self._stream(shape, *asked) if shape.is_stream else [self._body(shape)]
            found = self._made[key] = tuple(made)
        return found

    def _stream(self, shape: Shape, include_usage: bool, continuous: bool) -> list[bytes]:  # noqa: FBT001 - from a tuple
        text = WORD * self._options.tokens_per_chunk
        pieces: list[bytes] = []
        for index in range(shape.num_chunks):
            tokens = (index + 1) * self._options.tokens_per_chunk
            usage = _usage(shape, tokens) if continuous else None
            pieces.append(_event(shape, _choice(shape, text, first=index == 0), usage))
        total = shape.num_chunks * self._options.tokens_per_chunk
        pieces[-1] += _event(shape, _choice(shape, "", reason="length"), _usage(shape, total) if continuous else None)
        if include_usage:
            pieces[-1] += _event(shape, None, _usage(shape, total))
        pieces[-1] += DONE
        framed = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
        framed[0] = STREAM_HEAD + framed[0]
        framed[-1] += LAST_CHUNK
        return framed

    def _body(self, shape: Shape) -> bytes:
        total = shape.num_chunks * self._options.tokens_per_chunk
        text = WORD * total
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        if shape.endpoint is Endpoint.CHAT:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        return json_answer({**_heading(shape), "choices": [choice], "usage": _usage(shape, total)})


def json_answer(value: object, status: bytes = b"200 OK") -> bytes:
    """A whole HTTP answer with a JSON body."""
    body = _encode(value)
    head = b"HTTP/1.1 %b\r\nserver: arriero-null\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def _heading(shape: Shape) -> dict[str, Any]:
    kind = "chat.completion" if shape.endpoint is Endpoint.CHAT else "text_completion"
    is_chunk = shape.is_stream and shape.endpoint is Endpoint.CHAT
    return {"id": "null", "object": f"{kind}.chunk" if is_chunk else kind, "created": 0, "model": "null"}


def _choice(shape: Shape, text: str, *, first: bool = False, reason: str | None = None) -> dict[str, Any]:
    if shape.endpoint is Endpoint.COMPLETIONS:
        return {"index": 0, "text": text, "finish_reason": reason}
    delta: dict[str, Any] = {"role": "assistant"} if first else {}
    if text:
        delta["content"] = text
    return {"index": 0, "delta": delta, "finish_reason": reason}


def _event(shape: Shape, choice: dict[str, Any] | None, usage: dict[str, int] | None) -> bytes:
    choices = [] if choice is None else [choice]
    return b"data: %b\n\n" % _encode({**_heading(shape), "choices": choices, "usage": usage})


def _usage(shape: Shape, num_tokens: int) -> dict[str, int]:
    prompt = shape.num_prompt_tokens
    return {"prompt_tokens": prompt, "completion_tokens": num_tokens, "total_tokens": prompt + num_tokens}
