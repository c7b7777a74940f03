"""Idle rows fill calls up, and leave no trace."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.backend.canonical_rows import IDLE, CanonicalRows, rounded
from arriero.backend.protocol import Backend, DecodeError, KvExhausted
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.core.errors import ConfigError, InvariantViolation
from arriero.core.events import DropSequence, KvOp, TrimSequence
from arriero.core.ids import SequenceId
from arriero.core.option_kinds import Threads
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import FailedCall
from arriero.testing.suites import request_of, tokens_of

SEQUENCES = 6


class Watched(FaultyBackend):
    """Keeps the rows of every call."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.calls: list[list[Row]] = []

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        self.calls.append(list(rows))
        return super().decode(rows)

    @property
    def ids(self) -> list[int]:
        """Of the last call, an idle one below 0."""
        return [-row.sequence_id if row.request is IDLE else row.sequence_id for row in self.calls[-1]]


def padded(multiple: int = 4, sequences: int = SEQUENCES) -> tuple[CanonicalRows, Watched]:
    options = SyntheticOptions(
        num_sequences=rounded(sequences, multiple), num_rows=32, micro_batch=32, num_cells=64 * rounded(sequences, 4)
    )
    inner = Watched(SyntheticBackend(options))
    return CanonicalRows(inner, multiple=multiple, num_sequences=sequences), inner


def prompt_on(backend: Backend, sequence_id: int, length: int) -> Request:
    request = request_of(tokens_of(length), request_id=sequence_id + 1)
    backend.decode([PrefillChunk(request, SequenceId(sequence_id), 0, request.prompt, wants_logits=True)])
    return request


def row_on(request: Request, sequence_id: int, token: int = 9) -> Row:
    return DecodeRow(request, SequenceId(sequence_id), len(request.prompt), token)


def test_threads_are_those_of_the_inner_one() -> None:
    class Told(FaultyBackend):
        threads: Threads | None = None

        def set_threads(self, threads: Threads) -> None:
            self.threads = threads

    inner = Told(SyntheticBackend(SyntheticOptions(num_sequences=8, num_rows=32, micro_batch=32, num_cells=8 * 64)))
    CanonicalRows(inner, multiple=4, num_sequences=5).set_threads(Threads(1, 2))
    assert inner.threads == Threads(1, 2)


def test_limits_leave_room_for_idle_rows() -> None:
    backend, inner = padded()
    assert backend.limits.num_sequences == SEQUENCES
    assert inner.limits.num_sequences == 8
    assert backend.limits.sequence_limit == inner.limits.sequence_limit - 3
    assert backend.limits.num_cells == inner.limits.num_cells // 8 * 6


def test_a_chunk_is_filled_up_behind_its_end() -> None:
    backend, inner = padded()
    prompt_on(backend, 2, 5)
    assert [(row.sequence_id, row.start, row.num_rows) for row in inner.calls[-1]] == [(2, 0, 5), (2, 5, 3)]
    assert backend.positions(SequenceId(2)) == (0, 4)
    prompt_on(backend, 3, 8)
    assert [row.num_rows for row in inner.calls[-1]] == [8], "a whole multiple needs nothing"


def test_whole_aligned_blocks_of_ids_are_filled_and_no_others() -> None:
    backend, inner = padded(multiple=2)
    requests = {place: prompt_on(backend, place, 3 + place) for place in (0, 3, 4)}
    backend.decode([row_on(requests[0], 0), row_on(requests[3], 3)])
    assert [row.sequence_id for row in inner.calls[-1]] == [0, 1, 2, 3]
    assert [row.request is IDLE for row in inner.calls[-1]] == [False, True, True, False]
    backend.decode([row_on(requests[4], 4)])
    assert [row.sequence_id for row in inner.calls[-1]] == [4, 5]


def test_idle_rows_follow_what_lies_on_their_sequence_and_leave_it_as_it_was() -> None:
    backend, inner = padded()
    request, _ = prompt_on(backend, 0, 5), prompt_on(backend, 1, 7)
    backend.decode([row_on(request, 0)])
    assert [(row.sequence_id, row.start) for row in inner.calls[-1]] == [(0, 5), (1, 7), (2, 0), (3, 0)]
    assert backend.positions(SequenceId(1)) == (0, 6)
    assert backend.positions(SequenceId(2)) is None
    assert inner.positions(SequenceId(3)) is None


def test_logits_are_those_of_the_rows_alone_in_their_order() -> None:
    backend, _ = padded()
    plain = SyntheticBackend(SyntheticOptions(num_sequences=SEQUENCES, num_rows=32, num_cells=SEQUENCES * 64))
    for each in (backend, plain):
        for place in (1, 3, 5):
            prompt_on(each, place, 4 + place)
    rows = [row_on(request_of(tokens_of(4 + place), request_id=place + 1), place) for place in (1, 3, 5)]
    assert backend.decode(rows).tobytes() == plain.decode(rows).tobytes()
    assert all(backend.apply(TrimSequence(SequenceId(place), 4 + place)) for place in (1, 3, 5))
    for row in rows:
        assert backend.decode([row]).shape == (1, 260)


def test_an_answer_that_is_computed_again_is_no_chunk() -> None:
    backend, inner = padded()
    request = prompt_on(backend, 0, 5)
    again = PrefillChunk(request, SequenceId(0), 5, (9,), wants_logits=False)
    backend.decode([again])
    assert [row.sequence_id for row in inner.calls[-1]] == [0, 1, 2, 3]
    assert backend.positions(SequenceId(0)) == (0, 5)


def test_other_compositions_are_passed_on_as_they_are() -> None:
    backend, inner = padded()
    first, second = request_of(tokens_of(5)), request_of(tokens_of(6), request_id=2)
    rows = [
        PrefillChunk(each, SequenceId(i), 0, each.prompt, wants_logits=True) for i, each in enumerate((first, second))
    ]
    backend.decode(rows)
    assert inner.calls[-1] == rows
    assert backend.decode([PrefillChunk(first, SequenceId(4), 0, (), wants_logits=False)]).shape == (0, 260)


def test_a_failed_call_leaves_no_idle_rows() -> None:
    backend, inner = padded()
    request, _ = prompt_on(backend, 0, 5), prompt_on(backend, 1, 7)
    inner.add(FailedCall(2))
    with pytest.raises(DecodeError):
        backend.decode([row_on(request, 0)])
    assert backend.apply(TrimSequence(SequenceId(0), 5))
    assert [inner.positions(SequenceId(place)) for place in range(3)] == [(0, 4), (0, 6), None]


def test_no_sequence_grows_into_the_room_for_idle_rows() -> None:
    backend, _ = padded()
    request = prompt_on(backend, 0, 30)
    limit = backend.limits.sequence_limit
    rest = PrefillChunk(
        request_of(tokens_of(30), request_id=1), SequenceId(0), 30, (1,) * (limit - 30), wants_logits=True
    )
    with pytest.raises(KvExhausted):
        backend.decode([PrefillChunk(request, SequenceId(0), 30, (*rest.tokens, 1), wants_logits=True)])


def test_memory_that_keeps_idle_rows_is_told_at_once() -> None:
    class NeverTrims(Watched):
        def apply(self, op: KvOp) -> bool:
            return isinstance(op, DropSequence) and super().apply(op)

    inner = NeverTrims(SyntheticBackend(SyntheticOptions(num_sequences=8, num_rows=32, micro_batch=32)))
    backend = CanonicalRows(inner, multiple=4, num_sequences=SEQUENCES)
    prompt_on(backend, 0, 5)
    with pytest.raises(InvariantViolation, match="idle rows of sequence 0"):
        backend.positions(SequenceId(0))


@pytest.mark.parametrize(("ids", "micro_batch"), [(7, 32), (8, 30)])
def test_an_inner_backend_that_cannot_be_filled_is_refused(ids: int, micro_batch: int) -> None:
    inner = SyntheticBackend(SyntheticOptions(num_sequences=ids, num_rows=32, micro_batch=micro_batch))
    with pytest.raises(ConfigError, match="multiples of 4"):
        CanonicalRows(inner, multiple=4, num_sequences=SEQUENCES)
