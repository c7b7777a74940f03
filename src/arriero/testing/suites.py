"""What every implementation of a protocol passes.

`check_backend` runs all of `BACKEND_CHECKS`, each on a fresh backend; a test that wants a line for each takes the
tuple. A backend for the suite has at least 3 sequences, 8 rows, 64 cells for a sequence and 64 tokens, starts empty,
and answers equal questions equally. With a host store it has room there for some runs of 64 tokens.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.events import DropSequence, TrimSequence
from arriero.core.ids import SequenceId, TokenId
from arriero.core.option_kinds import Threads
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request, SamplingParams
from arriero.testing.suite_memory import MEMORY_CHECKS
from arriero.testing.suite_rows import FIRST, SECOND, THIRD, answer, chunk, refuses_room, request_of, tokens_of

__all__ = [
    "BACKEND_CHECKS",
    "FIRST",
    "MEMORY_CHECKS",
    "SECOND",
    "THIRD",
    "BackendCheck",
    "answer",
    "check_backend",
    "chunk",
    "draws",
    "flat_row",
    "request_of",
    "tokens_of",
]

BackendCheck = Callable[[Backend], None]
DRAWS: Final = 20


def check_backend(make: Callable[[], Backend]) -> None:
    """Run every check on a backend of its own, and close it.

    Raises:
        AssertionError: what the backend does wrong.
    """
    for check in BACKEND_CHECKS:
        backend = make()
        try:
            check(backend)
        finally:
            backend.close()


def starts_empty(backend: Backend) -> None:
    """No sequence holds anything, and the limits make sense."""
    limits = backend.limits
    assert all(backend.positions(SequenceId(i)) is None for i in range(limits.num_sequences))
    assert limits.sequence_limit <= limits.num_cells
    assert limits.num_sequences <= limits.num_rows
    assert all(0 <= token < limits.vocab_size for token in backend.end_tokens)


def positions_follow_the_rows(backend: Backend) -> None:
    """Each row takes the next position of its sequence."""
    request = request_of(tokens_of(7))
    backend.decode([chunk(request, FIRST)])
    assert backend.positions(FIRST) == (0, 6)
    backend.decode([DecodeRow(request, FIRST, 7, 20)])
    assert backend.positions(FIRST) == (0, 7)
    assert backend.positions(SECOND) is None


def a_drop_empties_one_sequence_only(backend: Backend) -> None:
    """The siblings stay where they were, and the sequence can be used again."""
    request = request_of(tokens_of(5))
    backend.decode([chunk(request, FIRST, end=3, wants_logits=False), chunk(request, SECOND)])
    assert backend.apply(DropSequence(FIRST))
    assert backend.positions(FIRST) is None
    assert backend.positions(SECOND) == (0, 4)
    assert backend.apply(DropSequence(FIRST)), "an empty sequence can be dropped"
    backend.decode([chunk(request, FIRST)])
    assert backend.positions(FIRST) == (0, 4)


def a_chunked_prompt_answers_like_a_whole_one(backend: Backend) -> None:
    """Chunks without logits give no row; the last one gives the same next token."""
    request = request_of(tokens_of(8))
    whole = answer(backend, request, FIRST, 3)
    for start, end in ((0, 3), (3, 6)):
        logits = backend.decode([chunk(request, SECOND, start, end, wants_logits=False)])
        assert logits.shape == (0, backend.limits.vocab_size)
    last = backend.decode([chunk(request, SECOND, 6)])
    assert last.shape == (1, backend.limits.vocab_size)
    assert last.dtype == np.float32
    assert int(last[0].argmax()) == whole[0]


def a_trimmed_sequence_goes_on_as_if_never_longer(backend: Backend) -> None:
    """Tokens that were trimmed away leave no trace."""
    request = request_of(tokens_of(6))
    said = answer(backend, request, FIRST, 4)
    assert backend.apply(TrimSequence(FIRST, 6))
    assert backend.positions(FIRST) == (0, 5)
    assert int(backend.decode([DecodeRow(request, FIRST, 6, said[0])])[0].argmax()) == said[1]
    assert backend.apply(TrimSequence(FIRST, 0))
    assert backend.positions(FIRST) is None


def logits_come_in_the_order_of_the_rows(backend: Backend) -> None:
    """A chunk in between that wants none takes no place; each row gets its own answer."""
    requests = [request_of(tokens_of(4, first=3 * i), request_id=i + 1) for i in range(3)]
    alone = [answer(backend, request, FIRST, 2) for request in requests if backend.apply(DropSequence(FIRST))]
    assert backend.apply(DropSequence(FIRST))
    rows: list[Row] = [
        chunk(requests[0], FIRST),
        chunk(requests[1], SECOND, end=2, wants_logits=False),
        chunk(requests[2], THIRD, end=2, wants_logits=False),
    ]
    assert [int(row.argmax()) for row in backend.decode(rows)] == [alone[0][0]]
    rows = [DecodeRow(requests[0], FIRST, 4, alone[0][0]), chunk(requests[1], SECOND, 2), chunk(requests[2], THIRD, 2)]
    assert [int(row.argmax()) for row in backend.decode(rows)] == [alone[0][1], alone[1][0], alone[2][0]]


def empty_rows_are_skipped(backend: Backend) -> None:
    """A row without tokens gives no logits and moves nothing, alone or in company."""
    request = request_of(tokens_of(4))
    empty = PrefillChunk(request, FIRST, 0, (), wants_logits=False)
    assert backend.decode([empty]).shape == (0, backend.limits.vocab_size)
    assert backend.decode([empty, chunk(request, SECOND)]).shape == (1, backend.limits.vocab_size)
    assert backend.positions(FIRST) is None


def a_full_memory_refuses_and_can_be_repaired(backend: Backend) -> None:
    """The call that finds no place changes nothing; after a trim the sequence goes on."""
    limits = backend.limits
    request = request_of(tokens_of(limits.sequence_limit))
    for start in range(0, limits.sequence_limit, limits.num_rows):
        backend.decode([chunk(request, FIRST, start, start + limits.num_rows, wants_logits=False)])
    full = (0, limits.sequence_limit - 1)
    assert backend.positions(FIRST) == full
    if not refuses_room(backend, DecodeRow(request, FIRST, limits.sequence_limit, 20)):
        message = f"a sequence took more than its {limits.sequence_limit} positions"
        raise AssertionError(message)
    assert backend.positions(FIRST) == full
    assert backend.apply(TrimSequence(FIRST, 8))
    assert backend.decode([DecodeRow(request, FIRST, 8, 20)]).shape[0] == 1
    assert backend.positions(FIRST) == (0, 8)


def an_interrupt_without_a_call_does_nothing(backend: Backend) -> None:
    """The next call runs."""
    request = request_of(tokens_of(4))
    backend.interrupt()
    assert backend.decode([chunk(request, FIRST)]).shape[0] == 1
    backend.interrupt()
    assert backend.positions(FIRST) == (0, 3)
    assert backend.decode([DecodeRow(request, FIRST, 4, 20)]).shape[0] == 1


def threads_may_change_between_calls(backend: Backend) -> None:
    """A sequence goes on where it was, whoever computes."""
    request = request_of(tokens_of(6))
    said = answer(backend, request, FIRST, 3)
    assert backend.apply(DropSequence(FIRST))
    backend.set_threads(Threads(2, 2))
    backend.decode([chunk(request, FIRST)])
    backend.set_threads(Threads(1, 2))
    assert int(backend.decode([DecodeRow(request, FIRST, 6, said[0])])[0].argmax()) == said[1]
    backend.set_threads(Threads(1, 1))
    assert int(backend.decode([DecodeRow(request, FIRST, 7, said[1])])[0].argmax()) == said[2]
    assert backend.positions(FIRST) == (0, 7)


def draws(backend: Backend, request: Request, row: NDArray[np.float32], *, ban_end_tokens: bool = False) -> list[int]:
    """Tokens that a fresh sampler chooses one after another from one and the same row."""
    sampler = backend.sampler(request)
    try:
        return [sampler.sample(row.copy(), ban_end_tokens=ban_end_tokens) for _ in range(DRAWS)]
    finally:
        sampler.close()


def flat_row(backend: Backend, *preferred: TokenId) -> NDArray[np.float32]:
    """Logits that differ little, but for some tokens that stand out."""
    row = np.linspace(0, 1, backend.limits.vocab_size, dtype=np.float32)
    row[list(preferred)] = 20
    return row


def a_seed_repeats_a_sampled_answer(backend: Backend) -> None:
    """The same seed draws the same tokens, another one others."""
    prompt = tokens_of(4)
    row = flat_row(backend)
    for sampling in (
        SamplingParams(temperature=1.0, seed=5),
        SamplingParams(temperature=0.7, top_k=40, top_p=0.95, min_p=0.01, repeat_penalty=1.2, seed=5),
    ):
        request = request_of(prompt, sampling=sampling)
        once, again = draws(backend, request, row), draws(backend, request, row)
        assert once == again
    other = request_of(prompt, sampling=SamplingParams(temperature=1.0, seed=6))
    same = request_of(prompt, sampling=SamplingParams(temperature=1.0, seed=5))
    assert draws(backend, other, row) != draws(backend, same, row)


def banned_end_tokens_are_never_chosen(backend: Backend) -> None:
    """Also where they stand out, greedily and by chance."""
    row = flat_row(backend, *backend.end_tokens)
    for sampling in (SamplingParams(), SamplingParams(temperature=1.0, seed=3)):
        request = request_of(tokens_of(4), sampling=sampling)
        free = draws(backend, request, row)
        banned = draws(backend, request, row, ban_end_tokens=True)
        assert not backend.end_tokens.intersection(banned)
        assert not backend.end_tokens or backend.end_tokens.intersection(free)


def penalties_count_the_prompt(backend: Backend) -> None:
    """A token of the prompt that stands out loses under a penalty, and a bias moves the choice."""
    prompt = tokens_of(4)
    row = flat_row(backend)
    row[prompt[0]] = 2
    row[60] = 1.5
    for sampling, expected in (
        (SamplingParams(logit_bias=((61, 9.0),)), 61),
        (SamplingParams(presence_penalty=1.9, penalty_last_n=-1), 60),
        (SamplingParams(repeat_penalty=1.0, logit_bias=((60, 0.1),)), prompt[0]),
    ):
        assert draws(backend, request_of(prompt, sampling=sampling), row)[0] == expected


BACKEND_CHECKS: Final[tuple[BackendCheck, ...]] = (
    starts_empty,
    positions_follow_the_rows,
    a_drop_empties_one_sequence_only,
    a_chunked_prompt_answers_like_a_whole_one,
    a_trimmed_sequence_goes_on_as_if_never_longer,
    logits_come_in_the_order_of_the_rows,
    empty_rows_are_skipped,
    a_full_memory_refuses_and_can_be_repaired,
    an_interrupt_without_a_call_does_nothing,
    threads_may_change_between_calls,
    a_seed_repeats_a_sampled_answer,
    banned_end_tokens_are_never_chosen,
    penalties_count_the_prompt,
    *MEMORY_CHECKS,
)
