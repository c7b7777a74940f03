"""Ask: one request as the schedule planned it, before anybody knows how it is sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

Message: TypeAlias = Mapping[str, Any]
"""A chat message as JSON: `role`, `content` ..."""

Prompt: TypeAlias = tuple[int, ...] | str | tuple[Message, ...]
"""Token ids, a text, or the messages of a chat."""


class Endpoint(StrEnum):
    """Which interface is asked."""

    COMPLETIONS = "completions"
    CHAT = "chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request; nothing in it changes while a run lasts.

    Attributes:
        request_id: unique in its run; sent as `x-request-id`, so that records of client and server can be joined.
        prompt: for `COMPLETIONS` token ids or a text; for `CHAT` messages, or a text that becomes one user message.
        max_tokens: the limit on output tokens, at least 1.
        endpoint: which interface.
        stream: False: the answer comes as one body, and all its tokens at once.
        fields: further fields of the body (`temperature`, `ignore_eos`, `seed` ...); they win over the client's own.
        session_id: the caller's name of the conversation, sent as `session_id` where it is given.
        cancel_after: close the connection once so many tokens have arrived; 0: as soon as it is sent. None: read on.
        conversation: a label that is copied into the life.
        turn: number in the conversation, from 0.
    """

    request_id: str
    prompt: Prompt
    max_tokens: int
    endpoint: Endpoint = Endpoint.COMPLETIONS
    stream: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session_id: str | None = None
    cancel_after: int | None = None
    conversation: str | None = None
    turn: int = 0

    @property
    def num_prompt_tokens(self) -> int | None:
        """Length of a prompt of token ids; None for text and messages, whose length only the server knows."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return None
        return len(prompt) if all(isinstance(each, int) for each in prompt[:1]) else None
