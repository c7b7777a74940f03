"""Answer: what the events of one answer say: moments of its chunks, tokens, the end, and what was wrong with them.

The dialects of OpenAI's interface are read in one way: arriero, llama-server (whose `timings` stand in where there is
no usage), llama-cpp-python, vLLM. Anything that cannot be read becomes a word; what came before and after it counts.
"""

import hashlib
from typing import Any, Final, Protocol, cast

import msgspec

from arriero.bench.client_errors import ErrorKind
from arriero.bench.sse import Event
from arriero.bench.sse_wire import Choice, Chunk, Timings, Usage
from arriero.metrics.client_life import Outcome

DONE: Final = b"[DONE]"

OUTCOMES: Final = {
    "stop": Outcome.STOP,
    "length": Outcome.LENGTH,
    "tool_calls": Outcome.TOOL_CALLS,
    "function_call": Outcome.TOOL_CALLS,
    "abort": Outcome.CANCELLED_BY_SERVER,
    "aborted": Outcome.CANCELLED_BY_SERVER,
    "cancel": Outcome.CANCELLED_BY_SERVER,
    "cancelled": Outcome.CANCELLED_BY_SERVER,
}
"""Finish reasons; any other one is `unknown_finish_reason`."""

CUTS: Final = frozenset({
    "request_cancelled", "client_closed_request", "request_timeout", "slow_consumer", "unavailable",
})  # fmt: skip
"""Codes of an error that says the server ended the request on purpose."""


_decode: Final = msgspec.json.Decoder(Chunk).decode
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class _Digest(Protocol):
    """What `hashlib` gives; it has no public name for it."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


class Answer:
    """One answer while it is read, event by event; used once.

    Attributes:
        chunk_at: moments of the chunks with content, ascending.
        empty_at: moments of those with choices and no content.
        done_at: when `[DONE]` came; None if it did not.
        error: the first thing that was wrong.
        detail: what the server said about it, one line, empty if nothing.
        is_cut: the server said that it ended the request on purpose.
    """

    def __init__(self, *, keep_text: bool = False) -> None:
        """Nothing has come yet; `keep_text` keeps the text itself beside its hash."""
        self.chunk_at: list[int] = []
        self.empty_at: list[int] = []
        self.done_at: int | None = None
        self.error: ErrorKind | None = None
        self.detail = ""
        self.is_cut = False
        self._totals: list[int | None] = []  # output tokens so far, as the server counts, at each chunk with content
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._timings: Timings | None = None
        self._digest: _Digest | None = None  # made with the first text
        self._texts: list[bytes] | None = [] if keep_text else None

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, event: Event) -> None:
        """Take one event of a stream."""
        if event.data == DONE:
            self.done_at = event.at if self.done_at is None else self.done_at
        elif (chunk := self._decoded(event.data, ErrorKind.UNKNOWN_EVENT)) is not None:
            if event.name == b"error" or chunk.error is not None:
                self._take_error(chunk.error, event.data)
            elif chunk.choices is None and chunk.usage is None:
                self._fail(ErrorKind.UNKNOWN_EVENT, event.data)
            else:
                self._take(event.at, chunk)

    def read_body(self, at: int, body: bytes) -> None:
        """Take an answer that came as one body: one chunk with all tokens."""
        chunk = self._decoded(body, ErrorKind.MALFORMED_BODY)
        if chunk is None:
            return
        if chunk.error is not None:
            self._take_error(chunk.error, body)
        elif not chunk.choices:
            self._fail(ErrorKind.MALFORMED_BODY, body)
        else:
            self._take(at, chunk)

    def _decoded(self, data: bytes, unknown: ErrorKind) -> Chunk | None:
        try:
            return _decode(data)
        except msgspec.ValidationError:
            self._fail(unknown, data)
        except msgspec.DecodeError:
            broken = ErrorKind.MALFORMED_EVENT if unknown is ErrorKind.UNKNOWN_EVENT else unknown
            self._fail(broken if _is_utf8(data) else ErrorKind.INVALID_UTF8, data)
        return None

    def _take(self, at: int, chunk: Chunk) -> None:
        usage, timings = chunk.usage, chunk.timings
        if usage is not None:
            self._usage = usage
        if timings is not None:
            self._timings = timings
        if not chunk.choices:
            return
        has_content = False
        for choice in chunk.choices:
            has_content |= self._take_choice(choice)
        if not has_content:
            self.empty_at.append(at)
            return
        self.chunk_at.append(at)
        total = usage.completion_tokens if usage is not None else None
        self._totals.append(timings.predicted_n if total is None and timings is not None else total)

    def _take_choice(self, choice: Choice) -> bool:
        """Whether it holds content: text, reasoning, or a piece of a tool call."""
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason
        has_content = False
        if choice.text:
            self._add_text(choice.text.encode())
            has_content = True
        piece = choice.delta if choice.delta is not None else choice.message
        if piece is None:
            return has_content
        for text in (piece.reasoning_content, piece.reasoning, piece.content, piece.refusal):
            if text:
                self._add_text(text.encode())
                has_content = True
        for call in (piece.tool_calls, piece.function_call):
            if call:
                self._add_text(_encode(call))
                has_content = True
        return has_content

    def _add_text(self, text: bytes) -> None:
        if self._digest is None:
            self._digest = hashlib.sha256()
        self._digest.update(text)
        if self._texts is not None:
            self._texts.append(text)

    def _take_error(self, error: object, data: bytes) -> None:
        code = cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None
        self.is_cut = isinstance(code, str) and code in CUTS
        self._fail(ErrorKind.CUT_BY_SERVER if self.is_cut else ErrorKind.ERROR_EVENT, data)

    def _fail(self, kind: ErrorKind, data: bytes) -> None:
        if self.error is None:
            self.error = kind
            self.detail = one_line(data)

    # ── what it came to ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def num_received(self) -> int:
        """Tokens so far: the server's count where it gives one with each chunk, else one a chunk."""
        if not self._totals:
            return 0
        last = self._totals[-1]
        return len(self._totals) if last is None else last

    @property
    def chunk_tokens(self) -> tuple[int, ...]:
        """Tokens of each chunk with content: from the server's running count if every chunk has it, else 1 each.

        Tokens that came without content of their own (held back for half a character or a stop string) count to the
        next chunk that shows something.
        """
        if not self._totals or any(total is None for total in self._totals):
            return (1,) * len(self._totals)
        before = 0
        tokens: list[int] = []
        for total in self._totals:
            assert total is not None, "looked at above"
            tokens.append(max(0, total - before))
            before = max(before, total)
        return tuple(tokens)

    @property
    def num_tokens(self) -> int | None:
        """The server's count of output tokens."""
        if self._usage is not None and self._usage.completion_tokens is not None:
            return self._usage.completion_tokens
        return None if self._timings is None else self._timings.predicted_n

    @property
    def prompt_tokens(self) -> int | None:
        """The server's count of prompt tokens, cached ones included."""
        if self._usage is not None and self._usage.prompt_tokens is not None:
            return self._usage.prompt_tokens
        if self._timings is None or self._timings.prompt_n is None:
            return None
        return self._timings.prompt_n + (self._timings.cache_n or 0)

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that the server did not have to compute."""
        details = None if self._usage is None else self._usage.prompt_tokens_details
        if details is not None and details.cached_tokens is not None:
            return details.cached_tokens
        return None if self._timings is None else self._timings.cache_n

    @property
    def text_sha256(self) -> str | None:
        """Of the UTF-8 of all content in the order of arrival; None without any."""
        return None if self._digest is None else self._digest.hexdigest()

    @property
    def text(self) -> str:
        """All content in the order of arrival, if it was to be kept; tool calls are in it as JSON."""
        return b"".join(self._texts or ()).decode(errors="replace")

    def ending(self, *, needs_done: bool) -> tuple[Outcome, ErrorKind | None]:
        """What the answer came to, if all of it has been read."""
        outcome = OUTCOMES.get(self._finish_reason or "")
        if self.error is not None:
            return Outcome.CANCELLED_BY_SERVER if self.is_cut else Outcome.ERROR, self.error
        if outcome is None:
            missing = self._finish_reason is None
            return Outcome.ERROR, ErrorKind.NO_FINISH_REASON if missing else ErrorKind.UNKNOWN_FINISH_REASON
        if outcome is Outcome.CANCELLED_BY_SERVER:
            return outcome, ErrorKind.CUT_BY_SERVER
        if needs_done and self.done_at is None:
            return Outcome.ERROR, ErrorKind.NO_DONE
        return outcome, None


def one_line(data: bytes) -> str:
    """The beginning of what a server sent, fit for a table."""
    return " ".join(data[:300].decode(errors="replace").split())


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
