"""How the next token is chosen, from the fields of an OpenAI body."""

from collections.abc import Iterable

from arriero.core.errors import InvalidRequest
from arriero.core.ids import TokenId
from arriero.core.request import SamplingParams
from arriero.http.order import fold_seed
from arriero.http.wire import Common


def check_tokens(tokens: Iterable[TokenId], vocab_size: int, field: str) -> None:
    """Refuse token ids that the model does not have.

    Raises:
        InvalidRequest: names the first.
    """
    bad = next((token for token in tokens if token >= vocab_size), None)
    if bad is not None:
        raise InvalidRequest(f"{field} names token {bad}; ids run from 0 to {vocab_size - 1}", field=field)


def sampling_of(body: Common, index: int, default_temperature: float) -> SamplingParams:
    """Sampling of one sequence.

    `temperature` 0 is greedy; `top_p` 0 keeps the best token alone; `top_k` -1 and 0 keep all.
    """
    top_p = 1.0 if body.top_p is None else body.top_p
    top_k = max(0, body.top_k or 0)
    if top_p == 0:
        top_p, top_k = 1.0, 1
    return SamplingParams(
        temperature=default_temperature if body.temperature is None else body.temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=body.min_p or 0.0,
        repeat_penalty=1.0 if body.repeat_penalty is None else body.repeat_penalty,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        logit_bias=tuple(sorted((body.logit_bias or {}).items())),
        seed=fold_seed(body.seed, index),
    )


def end_tokens_of(body: Common, model_end_tokens: frozenset[TokenId]) -> frozenset[TokenId]:
    """Tokens that end the answer: the model's unless they are ignored, and those that the caller adds."""
    own = frozenset[TokenId]() if body.ignore_eos else model_end_tokens
    return own | frozenset(body.stop_token_ids or ())
