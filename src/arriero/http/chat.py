"""`POST /v1/chat/completions`."""

from typing import Final

import msgspec

from arriero.core.errors import InvalidRequest
from arriero.http.answers import CHAT
from arriero.http.bodies import parse
from arriero.http.errors import Dialect
from arriero.http.openai_order import ask_of, check_common, form_of
from arriero.http.order import Ask, Order
from arriero.http.service import Service
from arriero.http.wire import ChatBody, StrictChatBody
from arriero.tokens.messages import parse_messages

_LENIENT: Final = msgspec.json.Decoder(ChatBody)
_STRICT: Final = msgspec.json.Decoder(StrictChatBody)


def read_chat(service: Service, data: bytes) -> Order:
    """An order from a chat body.

    Raises:
        CallerError: the body, or the first field that is wrong.
    """
    body: ChatBody = parse(data, _STRICT if service.options.strict_fields else _LENIENT)
    if body.max_tokens is not None and body.max_completion_tokens not in {None, body.max_tokens}:
        message = "max_tokens and max_completion_tokens differ; send one of them"
        raise InvalidRequest(message, field="max_completion_tokens")
    max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    check_common(service, body, max_tokens)
    messages = parse_messages(body.messages)

    def prepare() -> list[Ask]:
        prompt = service.template.render(messages)
        return [ask_of(service, body, prompt, index=0, max_tokens=max_tokens, field="messages")]

    return Order(
        endpoint="chat",
        dialect=Dialect.OPENAI,
        prefix="chatcmpl",
        num_sequences=1,
        prepare=prepare,
        stops=body.stops,
        sharing=body.sharing,
        urgency=body.urgency,
        form=lambda answer_id: form_of(service, body, CHAT, answer_id),
    )
