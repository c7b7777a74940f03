"""What OpenAI clients send: the request bodies of `/v1/chat/completions` and `/v1/completions`, field by field.

Every field of the public interface is here, so that none is accepted and ignored. Those that arriero does are typed
with their range; `refuse_unsupported` answers the others by name, unless their value asks for nothing. What clients
receive is in `answers.py`; no other file knows this JSON.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from arriero.core.errors import InvalidRequest, Unsupported
from arriero.http.scopes import Sharing
from arriero.http.urgency import Milliseconds, PriorityLevel, Urgency

MAX_STOPS: Final = 4
MAX_INT32: Final = 2**31 - 1

Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
StopText: TypeAlias = Annotated[str, Meta(min_length=1)]
TokenNumber: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INT32)]


class StreamOptions(Struct):
    """`stream_options`; only together with `stream`."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class Common(Struct, kw_only=True):
    """Fields of both endpoints."""

    model: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[TokenNumber, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: StopText | Annotated[list[StopText], Meta(max_length=MAX_STOPS)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    user: str | None = None
    # extensions
    top_k: Annotated[int, Meta(ge=-1, le=MAX_INT32)] | None = None
    min_p: Share | None = None
    repeat_penalty: Annotated[float, Meta(gt=0, le=100)] | None = None
    ignore_eos: bool | None = None
    min_tokens: Count | None = None
    stop_token_ids: list[TokenNumber] | None = None
    session_id: str | None = None
    cache_salt: Annotated[str, Meta(min_length=1)] | None = None
    timeout_ms: Milliseconds | None = None
    priority: PriorityLevel | None = None
    deadline_ms: Milliseconds | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """Stop strings in the order given."""
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def sharing(self) -> Sharing:
        """What it says about prefixes."""
        return Sharing(self.session_id, self.cache_salt)

    @property
    def urgency(self) -> Urgency:
        """How soon it wants its answer."""
        return Urgency(self.priority, self.deadline_ms)


class ChatBody(Common, kw_only=True):
    """`POST /v1/chat/completions`."""

    messages: list[object]  # read by `tokens.messages`, which knows every form of a message
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    # no visible effect on one answer
    metadata: dict[str, str] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: object = None
    prompt_cache_retention: str | None = None
    parallel_tool_calls: bool | None = None
    # known, and refused unless they ask for nothing
    audio: object = None
    function_call: object = None
    functions: object = None
    modalities: object = None
    moderation: object = None
    prediction: object = None
    reasoning_effort: object = None
    response_format: object = None
    service_tier: object = None
    store: object = None
    tool_choice: object = None
    tools: object = None
    verbosity: object = None
    web_search_options: object = None


class CompletionBody(Common, kw_only=True):
    """`POST /v1/completions`."""

    prompt: str | list[str | TokenNumber | list[TokenNumber]]
    max_tokens: Count | None = None
    best_of: Annotated[int, Meta(ge=0, le=20)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    suffix: str | None = None
    # extension
    parse_special: bool | None = None


class StrictChatBody(ChatBody, forbid_unknown_fields=True, kw_only=True):
    """The same; a field outside the interface is an error."""


class StrictCompletionBody(CompletionBody, forbid_unknown_fields=True, kw_only=True):
    """The same; a field outside the interface is an error."""


def _is_off(value: object) -> bool:
    return value is False


def _one_of(*values: object) -> Callable[[object], bool]:
    # `True == 1`, so types are compared as well
    return lambda value: any(value == each and type(value) is type(each) for each in values)


_NEVER: Final = _one_of()

NEUTRAL: Final[Mapping[str, Callable[[object], bool]]] = MappingProxyType({
    "n": _one_of(1),
    "logprobs": _is_off,
    "top_logprobs": _one_of(0),
    "audio": _NEVER,
    "function_call": _one_of("none", "auto"),
    "functions": _one_of([]),
    "modalities": _one_of(["text"]),
    "moderation": _NEVER,
    "prediction": _NEVER,
    "reasoning_effort": _one_of("none"),
    "response_format": _one_of({"type": "text"}),
    "service_tier": _one_of("auto", "default"),
    "store": _is_off,
    "tool_choice": _one_of("none", "auto"),
    "tools": _one_of([]),
    "verbosity": _one_of("medium"),
    "web_search_options": _NEVER,
    "best_of": _one_of(1),
    "echo": _is_off,
    "suffix": _one_of(""),
})
"""Fields that are refused, and which of their values ask for nothing and are therefore accepted."""


def refuse_unsupported(body: Common) -> None:
    """Refuse a field that is known and not done.

    Raises:
        Unsupported: names the field.
        InvalidRequest: fields that contradict each other.
    """
    for field, is_neutral in NEUTRAL.items():
        value = getattr(body, field, None)
        if value is not None and not is_neutral(value):
            raise Unsupported(f"{field} is not supported here; leave it out", field=field)
    options = body.stream_options
    if options is None:
        return
    if not body.stream:
        raise InvalidRequest("stream_options is only allowed together with stream: true", field="stream_options")
    if options.include_obfuscation:
        field = "stream_options.include_obfuscation"
        raise Unsupported(f"{field} is not supported here; leave it out", field=field)
