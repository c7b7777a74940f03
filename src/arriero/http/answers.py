"""What OpenAI clients receive: bodies, stream chunks and usage, of chat and of legacy completions.

A chunk is assembled from bytes that are made once for each answer; only the text is encoded for each piece. Chat and
completions differ in a few words, held by `Wording`.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from arriero.core.errors import ArrieroError
from arriero.core.ids import TokenId
from arriero.http.errors import Dialect, failure
from arriero.http.form import Ending

_encode: Final = msgspec.json.Encoder().encode

DONE: Final = b"data: [DONE]\n\n"

# Line separators to some clients, though neither to JSON nor to an event stream.
_LINE_BREAKERS: Final = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


def json_text(text: str) -> bytes:
    """A JSON string that stays on one line whatever its reader takes for a line."""
    encoded = _encode(text)
    if not text.isascii():
        for raw, escaped in _LINE_BREAKERS:
            encoded = encoded.replace(raw, escaped)
    return encoded


class CachedTokens(Struct, frozen=True):
    """`usage.prompt_tokens_details`."""

    cached_tokens: int


class Usage(Struct, frozen=True):
    """`usage`."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


def usage_of(prompt_tokens: int, completion_tokens: int, cached_tokens: int) -> Usage:
    """Usage of an answer; cached tokens are among those of the prompt."""
    total = prompt_tokens + completion_tokens
    return Usage(prompt_tokens, completion_tokens, total, CachedTokens(cached_tokens))


class ChatMessage(Struct, frozen=True):
    """`choices[].message`."""

    role: str
    content: str
    refusal: None = None


class ChatChoice(Struct, frozen=True):
    """`choices[]` of a chat."""

    index: int
    message: ChatMessage
    finish_reason: str
    stop_reason: str | None
    logprobs: None = None


class TextChoice(Struct, frozen=True):
    """`choices[]` of a legacy completion."""

    index: int
    text: str
    finish_reason: str
    stop_reason: str | None
    logprobs: None = None


class AnswerBody(Struct, frozen=True):
    """The body of an answer that does not stream."""

    id: str
    object: str
    created: int
    model: str
    choices: list[ChatChoice] | list[TextChoice]
    usage: Usage


@dataclass(frozen=True, slots=True)
class Wording:
    """What chat and legacy completions call the same things.

    Attributes:
        before_text: opens a choice of a chunk, up to the text.
        first: the same for the first piece of a sequence, which in a chat names the role as well.
        after_text: closes what these opened.
        without_text: a choice that only ends; `first_without_text` if nothing came before.
    """

    body_object: str
    chunk_object: str
    before_text: bytes
    first: bytes
    after_text: bytes
    without_text: bytes
    first_without_text: bytes

    def choice(self, ending: Ending, text: str) -> ChatChoice | TextChoice:
        """A choice of a body that does not stream."""
        if self is CHAT:
            message = ChatMessage("assistant", text)
            return ChatChoice(ending.index, message, ending.reason, ending.stop_reason)
        return TextChoice(ending.index, text, ending.reason, ending.stop_reason)


CHAT: Final = Wording(
    body_object="chat.completion",
    chunk_object="chat.completion.chunk",
    before_text=b'"delta":{"content":',
    first=b'"delta":{"role":"assistant","content":',
    after_text=b'},"logprobs":null,"finish_reason":',
    without_text=b'"delta":{},"logprobs":null,"finish_reason":',
    first_without_text=b'"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":',
)

COMPLETION: Final = Wording(
    body_object="text_completion",
    chunk_object="text_completion",
    before_text=b'"text":',
    first=b'"text":',
    after_text=b',"logprobs":null,"finish_reason":',
    without_text=b'"text":"","logprobs":null,"finish_reason":',
    first_without_text=b'"text":"","logprobs":null,"finish_reason":',
)


@dataclass(frozen=True, slots=True)
class Heading:
    """The fields that are the same in every chunk of an answer."""

    id: str
    created: int
    model: str


class WholeBody:
    """The form of an answer that does not stream."""

    streams = False
    tells_tokens = False
    tells_cancels = False

    def __init__(self, heading: Heading, wording: Wording) -> None:
        """One answer."""
        self._heading = heading
        self._wording = wording
        self._texts: dict[int, list[str]] = {}
        self._endings: list[Ending] = []
        self._cached_tokens = 0

    def begin(self, prompt_lengths: tuple[int, ...]) -> None:
        """Make room for each sequence's text."""
        self._texts = {index: [] for index in range(len(prompt_lengths))}

    def cached(self, index: int, num_tokens: int) -> None:
        """Add them up."""
        del index
        self._cached_tokens += num_tokens

    def piece(self, index: int, text: str, token: TokenId | None, num_tokens: int) -> bytes:
        """Keep the text."""
        del token, num_tokens
        self._texts[index].append(text)
        return b""

    def end(self, ending: Ending) -> bytes:
        """Keep the ending."""
        self._endings.append(ending)
        return b""

    def close(self) -> bytes:
        """The whole answer."""
        endings = sorted(self._endings, key=lambda each: each.index)
        choices = [self._wording.choice(each, "".join(self._texts[each.index])) for each in endings]
        usage = usage_of(
            sum(each.prompt_tokens for each in endings),
            sum(each.completion_tokens for each in endings),
            self._cached_tokens,
        )
        heading = self._heading
        body = AnswerBody(
            heading.id,
            self._wording.body_object,
            heading.created,
            heading.model,
            choices,  # type: ignore[arg-type]  # one wording, one kind of choice
            usage,
        )
        return _encode(body)

    def failed(self, error: ArrieroError) -> bytes:
        """Never asked for: nothing leaves before the end."""
        return failure(error, Dialect.OPENAI).body


class Chunks:
    """The form of an answer that streams: server-sent events, one `data:` line each."""

    streams = True
    tells_tokens = False
    tells_cancels = False

    def __init__(self, heading: Heading, wording: Wording, *, include_usage: bool, continuous_usage: bool) -> None:
        """One answer; `continuous_usage` puts the usage so far of its sequence into every chunk."""
        self._wording = wording
        fields = (heading.id, wording.chunk_object, heading.created, heading.model)
        self._head = b'data: {"id":%b,"object":%b,"created":%b,"model":%b,"choices":[' % tuple(
            _encode(each) for each in fields
        )
        self._include_usage = include_usage
        self._continuous_usage = continuous_usage
        self._tail = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._opened: dict[int, bytes] = {}
        self._prompt_lengths: tuple[int, ...] = ()
        self._cached: dict[int, int] = {}
        self._completion_tokens = 0

    def begin(self, prompt_lengths: tuple[int, ...]) -> None:
        """Keep them for the usage."""
        self._prompt_lengths = prompt_lengths

    def cached(self, index: int, num_tokens: int) -> None:
        """Keep them for the usage."""
        self._cached[index] = num_tokens

    def piece(self, index: int, text: str, token: TokenId | None, num_tokens: int) -> bytes:
        """One chunk with text."""
        del token
        opening = self._opened.get(index)
        if opening is None:
            start = self._start(index)
            self._opened[index] = start + self._wording.before_text
            opening = start + self._wording.first
        tail = self._tail_with(index, num_tokens) if self._continuous_usage else self._tail
        return b"".join((opening, json_text(text), self._wording.after_text, b"null}]", tail))

    def end(self, ending: Ending) -> bytes:
        """The one chunk of a sequence that has a finish reason."""
        index = ending.index
        self._completion_tokens += ending.completion_tokens
        is_first = index not in self._opened
        choice = self._wording.first_without_text if is_first else self._wording.without_text
        tail = self._tail_with(index, ending.completion_tokens) if self._continuous_usage else self._tail
        reason = b'%b,"stop_reason":%b}]' % (_encode(ending.reason), json_text(ending.stop_reason or ""))
        if ending.stop_reason is None:
            reason = b'%b,"stop_reason":null}]' % _encode(ending.reason)
        return b"".join((self._start(index), choice, reason, tail))

    def close(self) -> bytes:
        """The usage of the whole request, if it was asked for, and the end mark."""
        if not self._include_usage:
            return DONE
        usage = usage_of(sum(self._prompt_lengths), self._completion_tokens, sum(self._cached.values()))
        return b'%b],"usage":%b}\n\n%b' % (self._head, _encode(usage), DONE)

    def failed(self, error: ArrieroError) -> bytes:
        """One event that clients take for an error; nothing follows it."""
        return b"data: %b\n\n" % failure(error, Dialect.OPENAI).body

    def _start(self, index: int) -> bytes:
        return b'%b{"index":%d,' % (self._head, index)

    def _tail_with(self, index: int, num_tokens: int) -> bytes:
        usage = usage_of(self._prompt_lengths[index], num_tokens, self._cached.get(index, 0))
        return b',"usage":%b}\n\n' % _encode(usage)
