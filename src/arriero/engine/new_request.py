"""New requests: what is refused at once, before anything is queued."""

from arriero.backend.protocol import BackendLimits
from arriero.core.errors import InvalidRequest
from arriero.core.ids import Time
from arriero.core.request import Request
from arriero.scheduler.admission import check_fits


def after(arrived: Time, wait_ms: int | None) -> Time | None:
    """So many milliseconds after an arrival, on the engine's clock; None for never."""
    return None if wait_ms is None else arrived + wait_ms * 1000


def check_new(request: Request, limits: BackendLimits, *, has_started: bool) -> None:
    """Refuse what can never run.

    Args:
        request: whose fields are in their own ranges.
        limits: of the backend.
        has_started: whether the engine runs.

    Raises:
        InvalidRequest: names the field; ContextTooLong: with both numbers.
    """
    if request.preloaded and has_started:
        raise InvalidRequest("a request cannot be preloaded once the engine runs", field="preloaded")
    check_fits(request, limits.sequence_limit)
    bad = next((token for token in request.prompt if not 0 <= token < limits.vocab_size), None)
    if bad is not None:
        message = f"prompt token {bad} is outside the vocabulary of {limits.vocab_size} tokens"
        raise InvalidRequest(message, field="prompt")
    if not 0 <= request.min_tokens <= request.max_tokens:
        message = f"min_tokens must be between 0 and max_tokens ({request.max_tokens}), not {request.min_tokens}"
        raise InvalidRequest(message, field="min_tokens")
