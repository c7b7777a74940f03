"""The self-test of exact mode: passes where bits depend on nothing, names the shape where they do, and mends rows."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.backend.canonical_rows import CanonicalRows, rounded
from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.core.errors import ConfigError
from arriero.core.events import CopySequence, KvOp, TrimSequence
from arriero.core.option_kinds import Threads
from arriero.core.plan import Row
from arriero.engine.exact_check import ExactShapes, check_exact, open_exact
from arriero.testing.fakes import FaultyBackend
from arriero.testing.kernels import CountingKernels

SHAPES = ExactShapes(caps=(None, 40))
SEQUENCES = 6


def synthetic(num_sequences: int = SEQUENCES, *, store: SyntheticStore | None = None) -> SyntheticBackend:
    options = SyntheticOptions(
        num_sequences=num_sequences, num_rows=128, micro_batch=128, num_cells=num_sequences * 256, vocab_size=260
    )
    return SyntheticBackend(options, store=store)


def counting(group: int, *, closed: list[int] | None = None) -> Callable[[int], Backend]:
    """Makes backends with kernels that count, filled up to any multiple."""

    class Closing(CountingKernels):
        def close(self) -> None:
            super().close()
            if closed is not None:
                closed.append(self.limits.num_sequences)

    def make(multiple: int) -> Backend:
        inner = Closing(synthetic(rounded(SEQUENCES, multiple), store=SyntheticStore()), group)
        return inner if multiple == 1 else CanonicalRows(inner, multiple=multiple, num_sequences=SEQUENCES)

    return make


class HeedsPrefill(FaultyBackend):
    """The size of a chunk changes a bit."""

    def __init__(self, inner: Backend, size: int) -> None:
        super().__init__(inner)
        self._size = size
        self._seen: set[int] = set()

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        logits = super().decode(rows).copy()
        for row in rows:
            if row.num_rows == self._size:
                self._seen.add(row.sequence_id)
            if row.start == 0 and row.num_rows != self._size:
                self._seen.discard(row.sequence_id)
        for number, row in enumerate(row for row in rows if row.wants_logits):
            if row.sequence_id in self._seen:
                logits[number, 0] += 0.5
        return logits


class CopiesBadly(FaultyBackend):
    """What was copied has other bits from then on."""

    copied = False

    def apply(self, op: KvOp) -> bool:
        self.copied |= isinstance(op, CopySequence)
        return super().apply(op)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        return super().decode(rows) + np.float32(self.copied)


class HeedsThreads(FaultyBackend):
    """Who computes changes a bit."""

    now = Threads(1, 1)

    def set_threads(self, threads: Threads) -> None:
        self.now = threads
        super().set_threads(threads)

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        return super().decode(rows) + np.float32(0.25 * (self.now.prefill == 2))


class NeverTrims(FaultyBackend):
    def apply(self, op: KvOp) -> bool:
        return not isinstance(op, TrimSequence) and super().apply(op)


def test_a_backend_whose_bits_depend_on_nothing_passes_and_is_empty_afterwards() -> None:
    backend = synthetic(store=SyntheticStore())
    proof = check_exact(backend, SHAPES)
    assert proof.differing == ()
    assert proof.num_shapes > 20
    assert all(backend.positions(each) is None for each in range(SEQUENCES))  # type: ignore[arg-type] # any number


def test_without_copies_and_a_host_store_fewer_shapes_are_compared() -> None:
    store = SyntheticStore()
    all_of_them = check_exact(synthetic(store=store), SHAPES).num_shapes
    assert store.num_tokens == 0
    assert check_exact(synthetic(), SHAPES).num_shapes == all_of_them - 3
    assert check_exact(synthetic(), ExactShapes(reuses=False)).num_shapes == all_of_them - 5


@pytest.mark.parametrize("num_sequences", [1, 2, 3])
def test_few_sequences_are_enough(num_sequences: int) -> None:
    assert check_exact(synthetic(num_sequences, store=SyntheticStore()), SHAPES).differing == ()


def test_the_shape_that_differs_is_named() -> None:
    chunk = check_exact(HeedsPrefill(synthetic(), 7), SHAPES)
    assert [each.shape for each in chunk.differing] == ["a chunk of 7 rows, then one of 16"]
    assert chunk.differing[0].largest == pytest.approx(0.5)
    copy = check_exact(CopiesBadly(synthetic()), SHAPES)
    assert copy.differing[0].shape == "a prefix of 11 tokens copied"


def test_numbers_of_threads_are_compared_where_they_will_come_in_turns() -> None:
    backend = HeedsThreads(synthetic())
    assert check_exact(backend, SHAPES).differing == ()
    assert check_exact(backend, ExactShapes(threads=(4,))).differing == ()
    (differing,) = check_exact(backend, ExactShapes(threads=(1, 2, 4)), fail_fast=False).differing
    assert differing.shape == "a request computed with 2 of 4 threads (--adapt-threads)"
    assert differing.largest == 0.25
    assert backend.now == Threads(4, 4), "as it was configured"


def test_the_caps_own_chunk_is_compared() -> None:
    shapes = ExactShapes(caps=(None, 45))
    longest = check_exact(HeedsPrefill(synthetic(), 45), shapes, fail_fast=False)
    assert [each.shape for each in longest.differing] == ["a chunk of 45 rows"]
    assert check_exact(HeedsPrefill(synthetic(), 46), shapes).differing == ()


@pytest.mark.parametrize(("group", "multiple"), [(1, 1), (2, 2), (4, 4), (8, 8)])
def test_kernels_that_count_rows_are_mended_by_idle_rows(group: int, multiple: int) -> None:
    closed: list[int] = []
    found = open_exact(counting(group, closed=closed), SHAPES)
    assert found.multiple == multiple
    assert found.proof.differing == ()
    assert found.backend.limits.num_sequences == SEQUENCES
    assert len(closed) == [1, 2, 4, 8].index(multiple), "those that did not pass were closed"


def test_where_nothing_mends_it_the_shape_and_a_remedy_are_named() -> None:
    closed: list[int] = []
    with pytest.raises(ConfigError) as raised:
        open_exact(counting(3, closed=closed), SHAPES)
    message = str(raised.value)
    assert "--exact" in message
    assert "a decode call of 3 rows" in message
    assert "Q8_0" in message
    assert len(closed) == 4


def test_a_memory_that_cannot_trim_is_refused_in_a_line() -> None:
    with pytest.raises(ConfigError, match="refuses TrimSequence"):
        open_exact(lambda _: NeverTrims(synthetic()), SHAPES)


def test_a_backend_that_cannot_be_made_at_all_says_why() -> None:
    def make(multiple: int) -> Backend:
        raise ConfigError(f"no memory for {multiple}")

    with pytest.raises(ConfigError, match="no memory for 1"):
        open_exact(make, SHAPES)
