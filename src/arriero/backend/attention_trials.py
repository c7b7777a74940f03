"""Trials: the work on which fused and unfused attention are compared, one object for each kind of serving.

ChatTrial      prompts in few large steps, and steps that only decode
BoundedTrial   steps that must not take long: a few rows of a long prompt beside rows that decode

Fused attention computes fewer than 64 rows of a sequence one by one, and 64 and more in tiles, far faster. With a
target for the time between tokens a step has room for a few dozen rows of a prompt only, so most of a long prompt is
computed in the way in which fused attention is at its worst. On one machine two prompts of 3,000 tokens beside three
streams took 15.4 s with it and 11.0 s without, at a target of 100 ms; without a target 10.0 and 11.4 s.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.core.events import CopySequence, TrimSequence
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request

_TOKEN: Final[TokenId] = 3
_SEQUENCE: Final = SequenceId(0)
_TRIES: Final = 3


class Size(Protocol):
    """What a context has room for."""

    @property
    def num_sequences(self) -> int:
        """Sequences that will run at once."""
        ...

    @property
    def ctx_size(self) -> int:
        """Cells of all of them."""
        ...


class Trial(Protocol):
    """Some work, done on both in turns."""

    @property
    def num_rows(self) -> int:
        """Rows of a step, at most."""
        ...

    def sequences(self, size: Size) -> int:
        """How many sequences it needs where the context will be of this size."""
        ...

    def cells(self, size: Size) -> int:
        """Cells of each of them."""
        ...

    def seconds(self, backend: LlamaCppBackend, size: Size) -> float:
        """Do it once; everything that lies in the sequences is taken out before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTrial:
    """A prompt, the rest of one whose beginning was reused, and decode steps of several sequences.

    Weighted as a chat: for each prompt of 256 tokens 48 of such a rest and 64 of an answer. Decode steps are those of
    real sequences: eight rows of a single one looked like a cheap stand-in and are none; on one machine they took 9.8
    ms fused and 9.2 ms unfused, and a row for each of eight sequences 16 and 20 ms.

    Attributes:
        num_rows: of the prompt.
        suffix_rows: of the rest.
        most_sequences: that decode.
        decode_steps: for the prompt of each sequence.
    """

    num_rows: int = 256
    suffix_rows: int = 48
    most_sequences: int = 8
    decode_steps: int = 64

    def sequences(self, size: Size) -> int:
        """As many as will run, up to a few."""
        return min(size.num_sequences, self.most_sequences)

    def cells(self, size: Size) -> int:  # noqa: ARG002 - the same whatever the size
        """Of the prompt and its rest."""
        return self.num_rows + self.suffix_rows

    def seconds(self, backend: LlamaCppBackend, size: Size) -> float:
        """Seconds for a prompt, its rest and the steps of an answer in each sequence; the prompt is computed once."""
        count = self.sequences(size)
        _trim(backend, count, 0)
        prompt = _timed(lambda: backend.decode([_chunk(0, self.num_rows)]))
        _copy(backend, count, self.num_rows)
        step = _timed_step(backend, _decode_rows(range(count), self.num_rows), count, self.num_rows)
        suffix = _timed(lambda: backend.decode([_chunk(self.num_rows, self.suffix_rows)]))
        return count * (prompt + suffix) + self.decode_steps * step


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedTrial:
    """Rows of a long prompt, a few in a step, beside sequences that decode.

    Weighted as a prompt of twice the depth, computed in such chunks, and an answer.

    Attributes:
        num_rows: of a step while the sequences are filled.
        chunk_rows: of the prompt in a step.
        most_sequences: with rows in a step.
        most_depth: tokens before the chunk; half of what a sequence can hold if that is less.
        decode_steps: for each prompt.
    """

    num_rows: int = 256
    chunk_rows: int = 32
    most_sequences: int = 4
    most_depth: int = 1536
    decode_steps: int = 64

    def sequences(self, size: Size) -> int:
        """One that prefills, and a few that decode."""
        return min(size.num_sequences, self.most_sequences)

    def cells(self, size: Size) -> int:
        """The depth, and the chunk behind it."""
        return self._depth(size) + self.chunk_rows

    def seconds(self, backend: LlamaCppBackend, size: Size) -> float:
        """Seconds for such a prompt and the steps of an answer; one step of each is timed, at half of the prompt."""
        count, depth = self.sequences(size), self._depth(size)
        _trim(backend, count, 0)
        for start in range(0, depth, self.num_rows):
            backend.decode([_chunk(start, min(self.num_rows, depth - start))])
        _copy(backend, count, depth)
        chunk = _chunk(depth, self.chunk_rows)
        mixed = _timed_step(backend, [chunk, *_decode_rows(range(1, count), depth)], count, depth)
        step = _timed_step(backend, _decode_rows(range(count), depth), count, depth)
        return mixed * (2 * depth / self.chunk_rows) + self.decode_steps * step

    def _depth(self, size: Size) -> int:
        return max(self.chunk_rows, min(size.ctx_size // size.num_sequences // 2, self.most_depth))


CHAT: Final = ChatTrial()
BOUNDED: Final = BoundedTrial()


def _trim(backend: LlamaCppBackend, count: int, length: int) -> None:
    for number in range(count):
        backend.apply(TrimSequence(SequenceId(number), length))


def _copy(backend: LlamaCppBackend, count: int, length: int) -> None:
    """What the first sequence holds, into all others."""
    for number in range(1, count):
        backend.apply(CopySequence(_SEQUENCE, SequenceId(number), length))


def _timed_step(backend: LlamaCppBackend, rows: Sequence[Row], count: int, depth: int) -> float:
    """Seconds of a step, the best of a few, at a depth, which is all that the sequences hold afterwards."""
    times: list[float] = []
    for _ in range(_TRIES):
        times.append(_timed(lambda: backend.decode(rows)))
        _trim(backend, count, depth)
    return min(times)


def _decode_rows(sequences: range, depth: int) -> list[DecodeRow]:
    request = _request(depth + 1)
    return [DecodeRow(request, SequenceId(number), depth, _TOKEN) for number in sequences]


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _chunk(start: int, number: int) -> PrefillChunk:
    return PrefillChunk(_request(start + number), _SEQUENCE, start, (_TOKEN,) * number, wants_logits=False)


def _request(length: int) -> Request:
    return Request(request_id=RequestId(0), prompt=(_TOKEN,) * length, max_tokens=1, arrival_at=0)
