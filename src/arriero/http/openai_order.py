"""What chat and legacy completions have in common: the checks of their shared fields, and their asks."""

from arriero.core.errors import InvalidRequest
from arriero.core.ids import TokenId
from arriero.http.answers import Chunks, Heading, WholeBody, Wording
from arriero.http.form import Form
from arriero.http.order import Ask, check_prompt_length, room_for_answer
from arriero.http.sampling_fields import check_tokens, end_tokens_of, sampling_of
from arriero.http.service import Service, unix_now
from arriero.http.wire import Common, refuse_unsupported
from arriero.tokens.detokenizer import Detokenizer


def check_common(service: Service, body: Common, max_tokens: int | None) -> None:
    """Everything that can be said about the shared fields without the prompt.

    Raises:
        CallerError: the first that is wrong.
    """
    service.check_model(body.model)
    refuse_unsupported(body)
    check_tokens(body.logit_bias or {}, service.vocabulary.size, "logit_bias")
    check_tokens(body.stop_token_ids or (), service.vocabulary.size, "stop_token_ids")
    if max_tokens is not None and (body.min_tokens or 0) > max_tokens:
        message = f"min_tokens is {body.min_tokens} and at most {max_tokens} tokens may be generated; lower it"
        raise InvalidRequest(message, field="min_tokens")
    Detokenizer(service.vocabulary, body.stops)  # knows which stop strings can be searched
    sampling_of(body, 0, service.options.default_temperature)


def form_of(service: Service, body: Common, wording: Wording, answer_id: str) -> Form:
    """Stream or whole body."""
    heading = Heading(answer_id, unix_now(), service.model_id)
    if not body.stream:
        return WholeBody(heading, wording)
    options = body.stream_options
    return Chunks(
        heading,
        wording,
        include_usage=options is not None and bool(options.include_usage),
        continuous_usage=options is not None and bool(options.continuous_usage_stats),
    )


def ask_of(
    service: Service, body: Common, prompt: list[TokenId], *, index: int, max_tokens: int | None, field: str
) -> Ask:
    """One sequence, within the context of a sequence.

    Raises:
        InvalidRequest: the prompt has no tokens. PayloadTooLarge, ContextTooLong: it has too many.
    """
    if not prompt:
        raise InvalidRequest(f"{field} has no tokens; send at least one", field=field)
    check_prompt_length(len(prompt), service.options.max_prompt_tokens, field)
    room = room_for_answer(len(prompt), max_tokens, service.engine.limits.sequence_limit, field)
    return Ask(
        prompt=prompt,
        max_tokens=room,
        sampling=sampling_of(body, index, service.options.default_temperature),
        end_tokens=end_tokens_of(body, service.engine.end_tokens),
        min_tokens=min(body.min_tokens or 0, room),
        timeout_ms=body.timeout_ms,
    )
