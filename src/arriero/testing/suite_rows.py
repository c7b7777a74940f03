"""What the checks of backends are made of: prompts, requests and rows, and a few ways to ask a backend."""

from arriero.backend.protocol import Backend, KvExhausted
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request, SamplingParams

FIRST, SECOND, THIRD = SequenceId(0), SequenceId(1), SequenceId(2)


def tokens_of(num: int, first: int = 0) -> tuple[TokenId, ...]:
    """A prompt: ordinary tokens in a fixed, not too regular order."""
    return tuple(16 + (7 * i + i * i) % 40 for i in range(first, first + num))


def request_of(prompt: tuple[TokenId, ...], *, request_id: int = 1, sampling: SamplingParams | None = None) -> Request:
    """A request for the suite."""
    return Request(
        request_id=RequestId(request_id),
        prompt=prompt,
        max_tokens=32,
        arrival_at=0,
        sampling=sampling if sampling is not None else SamplingParams(),
    )


def chunk(
    request: Request, sequence_id: SequenceId, start: int = 0, end: int | None = None, *, wants_logits: bool = True
) -> PrefillChunk:
    """The prompt's tokens from `start` to `end`, all by default."""
    return PrefillChunk(request, sequence_id, start, request.prompt[start:end], wants_logits)


def answer(backend: Backend, request: Request, sequence_id: SequenceId, num_tokens: int) -> list[TokenId]:
    """Prefill a prompt at once and decode greedily, alone."""
    said = [int(backend.decode([chunk(request, sequence_id)])[0].argmax())]
    while len(said) < num_tokens:
        row = DecodeRow(request, sequence_id, len(request.prompt) + len(said) - 1, said[-1])
        said.append(int(backend.decode([row])[0].argmax()))
    return said


def refuses_room(backend: Backend, row: Row) -> bool:
    """Whether a call finds no place."""
    try:
        backend.decode([row])
    except KvExhausted:
        return True
    return False
