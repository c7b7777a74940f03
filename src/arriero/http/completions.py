"""`POST /v1/completions`: a prompt as text or token ids, or several of them."""

from typing import Final, TypeAlias

import msgspec

from arriero.core.errors import InvalidRequest
from arriero.core.ids import TokenId
from arriero.http.answers import COMPLETION
from arriero.http.bodies import parse
from arriero.http.errors import Dialect
from arriero.http.openai_order import ask_of, check_common, form_of
from arriero.http.order import Ask, Order
from arriero.http.sampling_fields import check_tokens
from arriero.http.service import Service
from arriero.http.wire import CompletionBody, StrictCompletionBody

Prompt: TypeAlias = str | list[TokenId]

_LENIENT: Final = msgspec.json.Decoder(CompletionBody)
_STRICT: Final = msgspec.json.Decoder(StrictCompletionBody)


def read_completion(service: Service, data: bytes) -> Order:
    """An order from a completion body; each prompt is a sequence of its own.

    Raises:
        CallerError: the body, or the first field that is wrong.
    """
    body: CompletionBody = parse(data, _STRICT if service.options.strict_fields else _LENIENT)
    check_common(service, body, body.max_tokens)
    prompts = split_prompts(body.prompt)
    for prompt in prompts:
        if not isinstance(prompt, str):
            check_tokens(prompt, service.vocabulary.size, "prompt")

    def tokens_of(prompt: Prompt) -> list[TokenId]:
        if not isinstance(prompt, str):
            return prompt
        return service.vocabulary.encode(prompt, add_special=True, parse_special=bool(body.parse_special))

    def prepare() -> list[Ask]:
        return [
            ask_of(service, body, tokens_of(prompt), index=index, max_tokens=body.max_tokens, field="prompt")
            for index, prompt in enumerate(prompts)
        ]

    return Order(
        endpoint="completions",
        dialect=Dialect.OPENAI,
        prefix="cmpl",
        num_sequences=len(prompts),
        prepare=prepare,
        stops=body.stops,
        sharing=body.sharing,
        urgency=body.urgency,
        form=lambda answer_id: form_of(service, body, COMPLETION, answer_id),
    )


def split_prompts(prompt: str | list[str | TokenId | list[TokenId]]) -> list[Prompt]:
    """The prompts of a request: a flat list of ids is one, any other list is one for each entry.

    Raises:
        InvalidRequest: an empty list, or ids beside prompts.
    """
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise InvalidRequest("prompt is an empty list; send text or token ids", field="prompt")
    ids = [each for each in prompt if isinstance(each, int)]
    if len(ids) == len(prompt):
        return [ids]
    if ids:
        raise InvalidRequest("prompt mixes token ids with whole prompts; send one kind", field="prompt")
    return [each for each in prompt if not isinstance(each, int)]
