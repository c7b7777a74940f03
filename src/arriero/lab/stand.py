"""Stand: brings KV memory into the state that a shape needs, and times the decode call."""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from arriero.backend.protocol import Backend
from arriero.core.errors import ConfigError
from arriero.core.events import DropSequence, ForgetSaved, KvOp, RestoreSequence, SaveSequence, TrimSequence
from arriero.core.ids import SavedKey, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.costmodel.passes import Stretch
from arriero.engine.logit_bench import made_up_request
from arriero.lab.shapes import Probe
from arriero.sampling.sampler import SamplerPool

Nanoseconds = Callable[[], int]

_SAVED_PARTS: Final = (0.1, 0.4, 1.0)
"""Fillings that are kept, as parts of the deepest: a short one is restored faster than the whole."""


class Sample(NamedTuple):
    """One measured step.

    Attributes:
        probe: its shape.
        rows: what was computed; those of the probe, perhaps some positions further.
        pool: cells in use before; 0 in the separate layout, where it does not matter.
        is_first: the step before had another shape.
        decode_us: inside the decode call.
        choose_us: choosing tokens, greedily.
    """

    probe: Probe
    rows: tuple[Stretch, ...]
    pool: int
    is_first: bool
    decode_us: float
    choose_us: float


class Stand:
    """One backend while it is measured; the backend stays its owner's.

    All sequences hold the beginning of one made-up prompt, so a filling can be taken back, cut or put in anew.
    """

    def __init__(self, backend: Backend, depth: int, clock: Nanoseconds = time.perf_counter_ns) -> None:
        """Nothing is computed yet; `depth` is the most that a sequence will hold."""
        self._backend = backend
        self._depth = depth
        self._clock = clock
        self._request = made_up_request(1, depth)
        self._held = [0] * backend.limits.num_sequences
        self._saved: list[tuple[int, SavedKey]] = []
        self._pool = SamplerPool(backend.sampler)

    def prepare(self) -> None:
        """Empty every sequence; fill one and keep copies outside, if this backend can."""
        for number in range(len(self._held)):
            self._apply(DropSequence(SequenceId(number)))
            self._held[number] = 0
        if not self._backend.reuse_support.save:
            return
        for key, part in enumerate(_SAVED_PARTS, start=1):
            length = max(1, int(self._depth * part))
            self._compute(0, length)
            if self._backend.apply(SaveSequence(SequenceId(0), SavedKey(key), length)):
                self._saved.append((length, SavedKey(key)))

    def measure(self, probe: Probe) -> list[Sample]:
        """As many steps as the probe asks for, one after another."""
        self._arrange(probe)
        found: list[Sample] = []
        for number in range(probe.repeats):
            stretches = tuple(row._replace(start=row.start + number * row.num_rows) for row in probe.rows)
            rows = [self._row(stretch) for stretch in stretches]
            pool = sum(self._held) if self._backend.limits.unified else 0
            began = self._clock()
            logits = self._backend.decode(rows)
            decoded = self._clock()
            self._pool.choose(rows, logits)
            chosen = self._clock()
            for stretch in stretches:
                self._held[stretch.sequence_id] += stretch.num_rows
            found.append(Sample(probe, stretches, pool, number == 0, (decoded - began) / 1e3, (chosen - decoded) / 1e3))
        return found

    def close(self) -> None:
        """Empty every sequence and forget what was saved, so that the backend can be given to an engine."""
        self._pool.close()
        for _, key in self._saved:
            self._apply(ForgetSaved(key))  # an engine counts its keys from 1, too
        self._saved.clear()
        for number in range(len(self._held)):
            self._apply(DropSequence(SequenceId(number)))

    def _arrange(self, probe: Probe) -> None:
        """Every sequence holds what the probe says; in one pool its cells then follow one another."""
        wanted = {row.sequence_id: row.start for row in probe.rows} | dict(probe.others)
        if self._backend.limits.unified:
            for number in range(len(self._held)):
                self._apply(DropSequence(SequenceId(number)))
                self._held[number] = 0
        for number, length in sorted(wanted.items()):
            self._hold(number, length)

    def _hold(self, number: int, length: int) -> None:
        held, sequence_id = self._held[number], SequenceId(number)
        if held == length:
            return
        if 0 < length < held and self._backend.reuse_support.trim:
            self._apply(TrimSequence(sequence_id, length))
            self._held[number] = length
            return
        self._apply(DropSequence(sequence_id))
        self._held[number] = 0
        key = next((key for saved, key in self._saved if saved >= length), None)
        if length and key is not None and self._backend.apply(RestoreSequence(sequence_id, key, length)):
            self._held[number] = length
        self._compute(number, length)

    def _compute(self, number: int, length: int) -> None:
        """Prefill a sequence up to so many positions."""
        longest = min(self._backend.limits.micro_batch, self._backend.limits.num_rows)
        while (held := self._held[number]) < length:
            size = min(longest, length - held)
            self._backend.decode([self._row(Stretch(number, held, size, wants_logits=False))])
            self._held[number] += size

    def _row(self, stretch: Stretch) -> Row:
        sequence_id, start = SequenceId(stretch.sequence_id), stretch.start
        if stretch.num_rows == 1 and stretch.wants_logits:
            return DecodeRow(self._request, sequence_id, start, self._request.prompt[start])
        tokens: Sequence[int] = self._request.prompt[start : start + stretch.num_rows]
        return PrefillChunk(self._request, sequence_id, start, tokens, stretch.wants_logits)

    def _apply(self, op: KvOp) -> None:
        if not self._backend.apply(op):
            message = f"this model's memory refuses {type(op).__name__}, which a calibration needs"
            raise ConfigError(message)
