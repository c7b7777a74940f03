"""What answers of OpenAI's interface look like, as far as a client that measures reads them.

Unknown fields are passed over, so that every server's extras are welcome.
"""

from typing import Any

from msgspec import Struct


class PromptDetails(Struct, gc=False):
    """`usage.prompt_tokens_details`."""

    cached_tokens: int | None = None


class Usage(Struct, gc=False):
    """`usage`: of the whole answer, or of the answer so far."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class Timings(Struct, gc=False):
    """`timings` of llama-server; `prompt_n` leaves out the cached ones."""

    cache_n: int | None = None
    prompt_n: int | None = None
    predicted_n: int | None = None


class Piece(Struct, gc=False):
    """`delta` of a chunk, or `message` of a body."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None


class Choice(Struct, gc=False):
    """`choices[]` of either interface."""

    text: str | None = None
    delta: Piece | None = None
    message: Piece | None = None
    finish_reason: str | None = None


class Chunk(Struct, gc=False):
    """An event of a stream, or a whole body."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: Any = None
