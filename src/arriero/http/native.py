"""`POST /completion` and `POST /shutdown`: the native endpoints, with the published codes and order of checks.

Checked before a place is taken: JSON and field types, then sampling; after it: tokens, their number, the context.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from arriero.core.errors import ArrieroError, InvalidRequest, InvalidSampling
from arriero.core.ids import TokenId
from arriero.core.request import GREEDY, MAX_SEED, SamplingParams
from arriero.http.bodies import explain, parse
from arriero.http.errors import Dialect, failure
from arriero.http.form import Ending, Form
from arriero.http.order import Ask, Order, check_prompt_length
from arriero.http.request_log import status_of
from arriero.http.scopes import Sharing
from arriero.http.service import Service
from arriero.http.urgency import Milliseconds, PriorityLevel, Urgency
from arriero.http.wire import MAX_INT32

_encode: Final = msgspec.json.Encoder().encode


class CompletionBody(Struct, kw_only=True):
    """The body of `/completion`."""

    prompt: str
    decode_budget: int
    stream: bool | None = None
    session_id: str | None = None
    cache_salt: Annotated[str, Meta(min_length=1)] | None = None
    sampling: dict[str, object] | None = None
    timeout_ms: Milliseconds | None = None
    priority: PriorityLevel | None = None
    deadline_ms: Milliseconds | None = None


class SamplingFields(Struct, kw_only=True, forbid_unknown_fields=True):
    """The object `sampling`; fields that are left out have the values of no sampling at all."""

    mode: str = "greedy"
    seed: int = 0
    temperature: float = 1.0
    top_k: Annotated[int, Meta(ge=-(2**31), le=MAX_INT32)] = 0
    top_p: float = 1.0
    top_p_min_keep: Annotated[int, Meta(ge=-(2**31), le=MAX_INT32)] = 1


class StrictBody(CompletionBody, forbid_unknown_fields=True, kw_only=True):
    """The same; a field outside the interface is an error."""


_LENIENT: Final = msgspec.json.Decoder(CompletionBody)
_STRICT: Final = msgspec.json.Decoder(StrictBody)


def read_native(service: Service, data: bytes) -> Order:
    """An order from a native body.

    Raises:
        MalformedBody, InvalidRequest, InvalidSampling: the first that is wrong.
    """
    body: CompletionBody = parse(data, _STRICT if service.options.strict_fields else _LENIENT)
    if body.decode_budget < 1:
        message = f"decode_budget must be at least 1, not {body.decode_budget}"
        raise InvalidRequest(message, field="decode_budget")
    sampling = GREEDY if body.sampling is None else read_sampling(body.sampling)

    def prepare() -> list[Ask]:
        prompt = service.vocabulary.encode(body.prompt, add_special=True, parse_special=True)
        if not prompt:
            raise InvalidRequest("the prompt has no tokens; send at least one", field="prompt")
        check_prompt_length(len(prompt), service.options.max_prompt_tokens, "prompt")
        ask = Ask(
            prompt=prompt,
            max_tokens=body.decode_budget,
            sampling=sampling,
            timeout_ms=body.timeout_ms,
        )
        return [ask]

    def form(_: str) -> Form:
        return NativeStream() if body.stream else NativeBody()

    return Order(
        endpoint="native",
        dialect=Dialect.NATIVE,
        prefix="native",
        num_sequences=1,
        prepare=prepare,
        stops=(),
        form=form,
        sharing=Sharing(body.session_id, body.cache_salt),
        urgency=Urgency(body.priority, body.deadline_ms),
    )


def read_sampling(value: dict[str, object]) -> SamplingParams:
    """Sampling of a native request.

    Raises:
        InvalidSampling: an unknown mode, a wrong type, or a value outside its range.
    """
    try:
        fields = msgspec.convert(value, SamplingFields, strict=True)
    except msgspec.ValidationError as error:
        found = explain(str(error), "sampling")
        raise InvalidSampling(str(found), field=found.field) from None
    if fields.mode not in {"greedy", "stochastic"}:
        message = f"sampling.mode must be greedy or stochastic, not {fields.mode[:40]!r}"
        raise InvalidSampling(message, field="sampling.mode")
    if fields.temperature <= 0:
        message = f"temperature must be above 0, not {fields.temperature}; mode greedy needs none"
        raise InvalidSampling(message, field="sampling.temperature")
    if not 0 <= fields.seed <= MAX_SEED:
        message = f"seed must be an unsigned 32-bit integer, not {fields.seed}"
        raise InvalidSampling(message, field="sampling.seed")
    params = SamplingParams(
        temperature=fields.temperature,
        top_k=fields.top_k,
        top_p=fields.top_p,
        min_keep=fields.top_p_min_keep,
        seed=fields.seed,
    )
    return GREEDY if fields.mode == "greedy" else params


class Told(Struct, frozen=True, omit_defaults=True):
    """The end of an answer: the event `done`, and with `text` the whole body.

    Attributes:
        prefix_source: where the cached tokens came from, or None.
        reuse: the verdict: `reused`, or why not.
    """

    request_id: int
    status: str
    n_decoded: int
    hash: str
    cached_tokens: int
    prefix_source: str | None
    reuse: str
    text: str | None = None
    cancel_reason: str | None = None


class NativeBody:
    """The form of a native answer that does not stream."""

    streams = False
    tells_tokens = False
    tells_cancels = True

    def __init__(self) -> None:
        """One answer."""
        self._text: list[str] = []
        self._body = b""

    def begin(self, prompt_lengths: tuple[int, ...]) -> None:
        """Nothing depends on the prompt."""

    def cached(self, index: int, num_tokens: int) -> None:
        """The end says it."""

    def piece(self, index: int, text: str, token: TokenId | None, num_tokens: int) -> bytes:
        """Keep the text."""
        del index, token, num_tokens
        self._text.append(text)
        return b""

    def end(self, ending: Ending) -> bytes:
        """Keep the body."""
        self._body = _encode(_told(ending, "".join(self._text)))
        return b""

    def close(self) -> bytes:
        """The body."""
        return self._body

    def failed(self, error: ArrieroError) -> bytes:
        """Never asked for: nothing leaves before the end."""
        return failure(error, Dialect.NATIVE).body


class NativeStream:
    """The form of a native answer that streams: an event for each token, then `done`."""

    streams = True
    tells_tokens = True
    tells_cancels = True

    def begin(self, prompt_lengths: tuple[int, ...]) -> None:
        """Nothing depends on the prompt."""

    def cached(self, index: int, num_tokens: int) -> None:
        """The end says it."""

    def piece(self, index: int, text: str, token: TokenId | None, num_tokens: int) -> bytes:
        """One event; what an unfinished character leaves at the end belongs to no token."""
        del index, num_tokens
        token_id = b"null" if token is None else b"%d" % token
        return b'event: token\ndata: {"token":%b,"token_id":%b}\n\n' % (_encode(text), token_id)

    def end(self, ending: Ending) -> bytes:
        """The last event."""
        return b"event: done\ndata: %b\n\n" % _encode(_told(ending, None))

    def close(self) -> bytes:
        """Nothing more."""
        return b""

    def failed(self, error: ArrieroError) -> bytes:
        """One event instead of `done`."""
        return b"event: error\ndata: %b\n\n" % failure(error, Dialect.NATIVE).body


def _told(ending: Ending, text: str | None) -> Told:
    result = ending.result
    assert result is not None, "a native answer ends with the engine's result"
    return Told(
        request_id=int(result.request_id),
        status=status_of(result),
        n_decoded=result.num_decoded,
        hash=f"0x{result.token_hash:016x}",
        cached_tokens=result.cached_tokens,
        prefix_source=None if result.prefix is None else result.prefix.value,
        reuse=result.verdict.value,
        text=text,
        cancel_reason=None if result.cancel_reason is None else result.cancel_reason.value,
    )
