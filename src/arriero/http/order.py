"""Order: a sound request before its prompt is tokenised; Ask: one sequence of it, ready for the engine."""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from arriero.core.errors import ContextTooLong, PayloadTooLarge
from arriero.core.ids import TokenId
from arriero.core.request import SamplingParams
from arriero.http.errors import Dialect
from arriero.http.form import Form
from arriero.http.scopes import Sharing
from arriero.http.urgency import NO_URGENCY, Urgency

MASK_32: Final = 2**32 - 1
MASK_64: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One sequence, ready for the engine.

    Attributes:
        max_tokens: 0 asks nothing of the engine: the answer is empty.
        end_tokens: None: the model's.
    """

    prompt: list[TokenId]
    max_tokens: int
    sampling: SamplingParams
    end_tokens: frozenset[TokenId] | None = None
    min_tokens: int = 0
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A request whose fields are all sound.

    Attributes:
        endpoint: its name in metrics.
        prefix: of the opaque id that its client sees.
        num_sequences: places that it needs.
        prepare: tokenises; on a worker. Raises what makes the prompt unfit.
        stops: stop strings, checked.
        form: how the answer is worded, once its id is known.
        sharing: what its body says about prefixes.
        urgency: how soon it wants its answer.
    """

    endpoint: str
    dialect: Dialect
    prefix: str
    num_sequences: int
    prepare: Callable[[], list[Ask]]
    stops: tuple[str, ...]
    form: Callable[[str], Form]
    sharing: Sharing
    urgency: Urgency = NO_URGENCY


def fold_seed(seed: int | None, index: int) -> int:
    """A seed of 32 bits for one sequence of a request.

    The first sequence takes the caller's own seed, 64 bits folded into 32; later ones derive theirs from it, so that
    equal prompts of one request get different answers, and the same ones again when the request is repeated.
    """
    if seed is None:
        return secrets.randbits(32)
    if index:
        seed = int.from_bytes(hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=8).digest())
    wide = seed & MASK_64
    return (wide ^ (wide >> 32)) & MASK_32


def check_prompt_length(num_tokens: int, max_prompt_tokens: int | None, field: str) -> None:
    """Refuse a prompt beyond the server's own bound.

    Raises:
        PayloadTooLarge: names both numbers.
    """
    if max_prompt_tokens is not None and num_tokens > max_prompt_tokens:
        message = f"the prompt has {num_tokens} tokens and this server takes at most {max_prompt_tokens}"
        raise PayloadTooLarge(message, field=field)


def room_for_answer(num_prompt: int, wanted: int | None, limit: int, field: str) -> int:
    """How many tokens may be generated: prompt and answer together stay within the context of one sequence.

    Args:
        wanted: what the caller allows; None: whatever fits.
        limit: positions of one sequence.

    Raises:
        ContextTooLong: not even one fits.
    """
    room = limit - num_prompt
    if room < 1 and not (wanted == 0 and room == 0):
        message = (
            f"the prompt has {num_prompt} tokens and the context of one sequence holds {limit}, "
            f"one of them at least for the answer; shorten the prompt"
        )
        raise ContextTooLong(message, needed=num_prompt, limit=limit, field=field)
    return room if wanted is None else min(wanted, room)
