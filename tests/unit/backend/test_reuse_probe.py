"""The trial of a memory, on memories that refuse one thing each; the real one is tried in the model tests."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.backend.copy_methods import CopyMethod
from arriero.backend.decoder import Decoder
from arriero.backend.llama_model import ATTENTION, Capabilities, memory_kind
from arriero.backend.protocol import BackendLimits, DecodeError
from arriero.backend.reuse_probe import Probed, probe_reuse
from arriero.backend.sequence_memory import SequenceMemory
from arriero.backend.sequence_state import Bytes, SequenceState
from arriero.backend.synthetic import SyntheticOptions
from arriero.core.ids import SequenceId
from arriero.core.plan import Row

LINE = 10  # bytes of a position


class Lengths(SequenceMemory):
    """Knows how long each sequence is, and nothing else."""

    def __init__(self, *, trims: bool = True) -> None:
        self.held: dict[SequenceId, int] = {}
        self.num_cleared = 0
        self._trims = trims

    def positions(self, sequence_id: SequenceId) -> tuple[int, int] | None:
        held = self.held.get(sequence_id, 0)
        return (0, held - 1) if held else None

    def trim(self, sequence_id: SequenceId, length: int) -> bool:
        if length and not self._trims:
            return False
        self.held[sequence_id] = min(length, self.held.get(sequence_id, 0))
        return True

    def clear(self) -> None:
        self.held.clear()
        self.num_cleared += 1


class Sizes(SequenceState):
    """A state of so many bytes for each position."""

    def __init__(self, memory: Lengths, *, writes: bool = True) -> None:
        self._lengths = memory
        self._writes = writes

    def size(self, sequence_id: SequenceId) -> int:
        return 7 + LINE * self._lengths.held.get(sequence_id, 0)

    def read(self, sequence_id: SequenceId, target: Bytes) -> bool:
        target[:] = 0
        return target.nbytes == self.size(sequence_id)

    def write(self, sequence_id: SequenceId, source: Bytes) -> bool:
        self._lengths.held[sequence_id] = (source.nbytes - 7) // LINE if self._writes else 0
        return self._writes


class Counting(Decoder):
    """Decodes into lengths."""

    def __init__(self, memory: Lengths, *, fails: bool = False) -> None:
        self._lengths = memory
        self._fails = fails
        self.calls: list[int] = []

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        if self._fails:
            raise DecodeError("it broke", code="decode_failed")
        for row in rows:
            assert self._lengths.held.get(row.sequence_id, 0) == row.start
            self._lengths.held[row.sequence_id] = row.start + row.num_rows
        self.calls.append(sum(row.num_rows for row in rows))
        return np.empty((0, 1), np.float32)


class Copies(CopyMethod):
    """Copies, or says that it did, or does not."""

    def __init__(self, memory: Lengths, *, copies: bool = True, says: bool = True) -> None:
        self._lengths = memory
        self._copies = copies
        self._says = says

    def copy(self, source: SequenceId, target: SequenceId, length: int) -> bool:
        if self._copies:
            self._lengths.held[target] = min(length, self._lengths.held[source])
        return self._says

    def changed(self, sequence_id: SequenceId) -> None:
        """Nothing is kept."""

    def decoded(self) -> None:
        """Nothing is kept."""

    def is_settled(self, sequence_id: SequenceId) -> bool:
        return bool(sequence_id) or True


def capabilities_of(memory: str = ATTENTION) -> Capabilities:
    return Capabilities(
        description="small",
        num_parameters=1,
        weight_bytes=1,
        weight_format="Q",
        trained_context=100,
        vocab_size=60,
        num_layers=1,
        num_heads=1,
        trims=memory == ATTENTION,
        memory=memory,
    )


def probe(
    memory: Lengths,
    *,
    decoder: Counting | None = None,
    state: Sizes | None = None,
    method: Copies | None = None,
    options: SyntheticOptions = SyntheticOptions(),  # noqa: B008 - frozen
    capabilities: Capabilities | None = None,
) -> Probed:
    limits: BackendLimits = options.limits()
    probed = probe_reuse(
        decoder or Counting(memory),
        memory,
        state or Sizes(memory),
        method or Copies(memory),
        limits,
        capabilities or capabilities_of(),
    )
    assert memory.held == {}
    return probed


@pytest.mark.parametrize("options", [SyntheticOptions(), SyntheticOptions(num_rows=1, num_sequences=1)])
def test_a_memory_that_does_everything(options: SyntheticOptions) -> None:
    memory = Lengths()
    probed = probe(memory, options=options)
    assert probed == Probed(trim=True, copy=True, save=True, reason="", bytes_per_token=LINE)
    assert memory.num_cleared == 1
    assert probed.support(has_store=True).save
    assert not probed.support(has_store=False).save
    assert probed.support(has_store=False).bytes_per_token == LINE


def test_a_call_never_has_more_rows_than_it_may() -> None:
    for num_rows in (1, 2, 3, 64):
        memory = Lengths()
        decoder = Counting(memory)
        probe(memory, decoder=decoder, options=SyntheticOptions(num_rows=num_rows, num_sequences=1))
        assert max(decoder.calls) <= num_rows


def test_c13_a_memory_that_refuses_a_trim_is_found_out() -> None:
    probed = probe(Lengths(trims=False))
    assert [probed.trim, probed.copy, probed.save] == [False] * 3
    assert "refuses to take a tail" in probed.reason


@pytest.mark.parametrize("says", [False, True])
def test_a_copy_that_is_none_is_found_out(says: bool) -> None:  # noqa: FBT001
    memory = Lengths()
    probed = probe(memory, method=Copies(memory, copies=False, says=says))
    assert (probed.trim, probed.copy, probed.save) == (True, False, True)
    assert "does not copy" in probed.reason


def test_a_state_that_does_not_come_back_is_found_out() -> None:
    memory = Lengths()
    probed = probe(memory, state=Sizes(memory, writes=False))
    assert (probed.trim, probed.copy, probed.save, probed.reason) == (True, True, False, "")


def test_a_failed_trial_is_a_reason_and_no_crash() -> None:
    memory = Lengths()
    probed = probe(memory, decoder=Counting(memory, fails=True))
    assert [probed.trim, probed.copy, probed.save] == [False] * 3
    assert "it broke" in probed.reason


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (memory_kind(recurrent=True, hybrid=False, window=0), "recurrent layers"),
        (memory_kind(recurrent=False, hybrid=True, window=0), "attention and recurrent layers"),
        (memory_kind(recurrent=False, hybrid=False, window=512), "a sliding window of 512 positions"),
    ],
)
def test_c13_a_model_that_says_so_itself_is_not_tried(memory: str, words: str) -> None:
    lengths = Lengths()
    decoder = Counting(lengths)
    probed = probe(lengths, decoder=decoder, capabilities=capabilities_of(memory))
    assert decoder.calls == []
    assert [probed.trim, probed.copy, probed.save] == [False] * 3
    assert words in probed.reason
