"""BareLoop: a burst on a context, with nothing around it: no server, no scheduler, no stream.

What anybody would write by hand who knows the burst beforehand: the prefix is computed once, every lane gets a copy,
each lane computes its own part and decodes, and starts again on its prefix when a request has ended. Lanes are
sequences 0 ... n - 1, so rows ascend. What a server adds to this is the price of serving.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from arriero.backend.protocol import Backend
from arriero.bench.experiments.burst_load import Burst, BurstShape
from arriero.core.errors import ConfigError
from arriero.core.events import CopySequence, DropSequence, KvOp, TrimSequence
from arriero.core.ids import RequestId, SequenceId, TokenId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request
from arriero.metrics.client_life import ClientLife, Outcome


@dataclass(slots=True, eq=False)
class _Lane:
    """One request after the other on one sequence."""

    sequence_id: SequenceId
    number: int
    request: Request
    computed: int
    sent_at: int
    tokens: list[TokenId] = field(default_factory=list[TokenId])
    token_at: list[int] = field(default_factory=list[int])

    def row(self) -> Row:
        """What it computes next."""
        if not self.tokens:
            rest = tuple(self.request.prompt[self.computed :])
            return PrefillChunk(self.request, self.sequence_id, self.computed, rest, wants_logits=True)
        return DecodeRow(self.request, self.sequence_id, self.computed, self.tokens[-1])

    def take(self, row: Row, token: TokenId, at: int) -> None:
        """A row was computed and gave this token."""
        self.computed += row.num_rows
        self.tokens.append(token)
        self.token_at.append(at)


class BareLoop:
    """Serves bursts on one context, which stays its owner's; every request is taken to be there at the start."""

    def __init__(self, backend: Backend, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._backend = backend
        self._clock = clock

    def serve(self, shape: BurstShape, burst: Burst) -> tuple[ClientLife, ...]:
        """Compute a burst; the lives of its requests, in the order of their ends.

        A request counts as sent when its lane is free, as that of a closed loop is.

        Raises:
            ConfigError: the context refuses an operation, or is too small for the burst.
        """
        limits, num_lanes = self._backend.limits, min(shape.clients, len(burst.owns))
        need = num_lanes * shape.own_tokens
        if limits.num_sequences < num_lanes or limits.num_rows < need:
            raise ConfigError(f"the bare loop needs {num_lanes} sequences and {need} rows of one decode call")
        began_at = self._clock()
        requests = [self._request(shape, burst, number) for number in range(len(burst.owns))]
        ids = [SequenceId(number) for number in range(num_lanes)]
        for each in ids:
            self._apply(DropSequence(each))
        self._prefill(requests[0], burst.prefix)
        for each in ids[1:]:
            self._apply(CopySequence(ids[0], each, len(burst.prefix)))
        waiting = iter(enumerate(requests))
        lanes = [_Lane(each, *next(waiting), len(burst.prefix), began_at) for each in ids]
        lives: list[ClientLife] = []
        while lanes:
            self._step(lanes)
            ended = [lane for lane in lanes if len(lane.tokens) >= shape.budget]
            lives.extend(_life(burst, shape, lane) for lane in ended)
            lanes = [again for lane in lanes for again in self._next(lane, ended, waiting, len(burst.prefix))]
        return tuple(lives)

    def _next(
        self, lane: _Lane, ended: Sequence[_Lane], waiting: Iterator[tuple[int, Request]], length: int
    ) -> Iterator[_Lane]:
        """The lane as it goes on: with its request, with the next one from the prefix on, or not at all."""
        if lane not in ended:
            yield lane
        elif (following := next(waiting, None)) is not None:
            self._apply(TrimSequence(lane.sequence_id, length))
            yield _Lane(lane.sequence_id, *following, length, lane.token_at[-1])

    def _request(self, shape: BurstShape, burst: Burst, number: int) -> Request:
        return Request(
            request_id=RequestId(number + 1),
            prompt=burst.prefix + burst.owns[number],
            max_tokens=shape.budget,
            arrival_at=0,
        )

    def _prefill(self, request: Request, prefix: Sequence[TokenId]) -> None:
        limit = self._backend.limits.num_rows
        for at in range(0, len(prefix), limit):
            part = tuple(prefix[at : at + limit])
            self._backend.decode([PrefillChunk(request, SequenceId(0), at, part, wants_logits=False)])

    def _step(self, lanes: Sequence[_Lane]) -> None:
        """One decode call with a row or a chunk of each lane."""
        rows = [lane.row() for lane in lanes]
        tokens = np.argmax(self._backend.decode(rows), axis=1)
        now = self._clock()
        for lane, row, token in zip(lanes, rows, tokens, strict=True):
            lane.take(row, TokenId(int(token)), now)

    def _apply(self, op: KvOp) -> None:
        if not self._backend.apply(op):
            raise ConfigError(f"the context refuses {op}; the bare loop cannot run on this model")


def _life(burst: Burst, shape: BurstShape, lane: _Lane) -> ClientLife:
    return ClientLife(
        request_id=burst.request_id(lane.number),
        intended_at=None,
        sent_at=lane.sent_at,
        closed_at=lane.token_at[-1],
        outcome=Outcome.LENGTH,
        asked_tokens=shape.budget,
        chunk_at=tuple(lane.token_at),
        chunk_tokens=(1,) * len(lane.token_at),
        num_tokens=len(lane.tokens),
        prompt_tokens=len(lane.request.prompt),
        asked_prompt_tokens=len(lane.request.prompt),
    )
