"""Company: a mixture of requests on one engine, each compared with its answer alone.

Feed      submits, so that so many are there at once, and cancels, all between two steps: nothing depends on a clock
Witness   compares every row of logits with the same row of the request alone, as long as the tokens are the same
Verdict   what became of one request
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.errors import QueueFull
from arriero.core.ids import TokenId
from arriero.core.plan import Row
from arriero.core.request import FinishReason
from arriero.engine.handle import Result
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import Fault
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.containment import Wrapped
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.mixture import Asked, CancelAt
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.solo import Gap, Solo, digest_of
from arriero.testing.gates.watch import CancelPlan


class Scoping(StrEnum):
    """Who may see whose prefixes."""

    GLOBAL = "global"
    TENANT = "tenant"
    SESSION = "session"  # a family is a session
    NONE = "none"

    def scope_of(self, asked: Asked) -> str | None:
        """The cache scope of a request."""
        return {
            Scoping.GLOBAL: "",
            Scoping.TENANT: f"tenant-{asked.tenant}",
            Scoping.SESSION: f"family-{asked.family}",
            Scoping.NONE: None,
        }[self]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One request in company.

    Attributes:
        place: where its answer first differs from the one alone; None if it never does.
        gap: between the token chosen alone and the one chosen here, in the logits of the one alone.
        bits_place: where a row of its logits first has other bits; None if none has.
    """

    asked: Asked
    result: Result
    place: int | None
    gap: Gap | None
    bits_place: int | None

    @property
    def is_whole(self) -> bool:
        """Whether it came to its own end."""
        return self.result.reason in {FinishReason.LENGTH, FinishReason.STOP}


@dataclass(frozen=True, slots=True)
class Company:
    """What a run was.

    Attributes:
        verdicts: in the order of the mixture.
        num_rows: rows of logits that were compared.
        num_unlike_rows: those with other bits.
        num_full: how often the door was closed to somebody, who then came again.
    """

    run: RunRecord
    verdicts: tuple[Verdict, ...]
    num_rows: int
    num_unlike_rows: int
    num_full: int


async def keep_company(  # noqa: PLR0913 - a run has that many sides, and each call names them
    context: GateContext,
    findings: Findings,
    asked: Sequence[Asked],
    solos: Mapping[int, Solo],
    *,
    shape: Shape,
    options: EngineOptions,
    width: int,
    scoping: Scoping,
    faults: Sequence[Fault] = (),
) -> Company:
    """Run a mixture to its end, `width` requests at once, and compare.

    Args:
        context: of the gate.
        findings: of the gate: every promise that holds for any run is checked.
        asked: the mixture.
        solos: the answers alone, by request number, at least as long as asked for.
        shape: of the backend.
        options: of the engine.
        width: requests that are there at once.
        scoping: who may see whose prefixes.
        faults: what goes wrong in the backend.
    """
    witness = Witness(solos)
    backends = Wrapped(context.backends, lambda inner: witness.watch(FaultyBackend(inner, *faults)))
    wrapped = replace(context, backends=backends)
    async with Rig(wrapped, findings, shape, replace(options, keep_alive=False)) as rig:
        feed = Feed(rig, asked, width, scoping)
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_tokens=_due(asked, CancelAt.TOKENS)))
        rig.log.after_step(CancelPlan(rig.engine.cancel, after_chunks=_due(asked, CancelAt.CHUNKS)))
        rig.log.after_step(feed)
        feed()
        run = await rig.run()
    results = {int(result.request_id): result for result in run.results}
    verdicts = tuple(
        _verdict(each, results[each.number], solos[each.number], witness.bits.get(each.number)) for each in asked
    )
    return Company(run, verdicts, witness.num_rows, witness.num_unlike, feed.num_full)


def _due(asked: Sequence[Asked], at: CancelAt) -> dict[int, int]:
    return {each.number: each.cancel.number for each in asked if each.cancel is not None and each.cancel.at is at}


def _verdict(asked: Asked, result: Result, solo: Solo, bits_place: int | None) -> Verdict:
    pairs = enumerate(zip(result.tokens, solo.tokens, strict=False))
    place = next((place for place, (here, alone) in pairs if here != alone), None)
    gap = None if place is None else solo.gap(place, result.tokens[place])
    return Verdict(asked, result, place, gap, bits_place)


class Feed:
    """Submits the requests of a mixture in order; call it after every step.

    Attributes:
        num_full: how often the door was closed.
    """

    def __init__(self, rig: Rig, asked: Sequence[Asked], width: int, scoping: Scoping) -> None:
        """At most `width` requests are there at once."""
        self.num_full = 0
        self._rig = rig
        self._left = list(asked)
        self._width = width
        self._scoping = scoping
        self._num_there = 0
        self._num_seen = 0
        self._ended: set[int] = set()

    def __call__(self, record: StepRecord | None = None) -> None:
        """Note who has ended, then submit whoever may come now."""
        del record
        for result in self._rig.log.results[self._num_seen :]:
            self._num_seen += 1
            self._num_there -= 1
            self._ended.add(result.request_id)
        while self._num_there < self._width and (each := self._next()) is not None:
            try:
                self._submit(each)
            except QueueFull:
                self.num_full += 1
                return
            self._left.remove(each)
            self._num_there += 1

    def _next(self) -> Asked | None:
        """The first one that need not wait for another one's end."""
        return next((each for each in self._left if each.after is None or each.after in self._ended), None)

    def _submit(self, asked: Asked) -> None:
        session = f"family-{asked.family}" if self._scoping is Scoping.SESSION else None
        self._rig.submit(
            asked.prompt,
            asked.max_tokens,
            request_id=asked.number,
            stream=False,
            session_id=session,
            cache_scope=self._scoping.scope_of(asked),
        )
        if asked.cancel is not None and asked.cancel.at is CancelAt.ONCE:
            self._rig.engine.cancel(asked.number)


class Witness:
    """Compares rows of logits with those of the same requests alone.

    Attributes:
        num_rows: rows compared.
        num_unlike: rows with other bits.
        bits: where each request's logits first had other bits, as a place of its answer.
    """

    def __init__(self, solos: Mapping[int, Solo]) -> None:
        """`solos` are the answers alone, by request number."""
        self.num_rows = 0
        self.num_unlike = 0
        self.bits: dict[int, int] = {}
        self._solos = solos
        self._elsewhere: set[int] = set()  # whose answer has left the one alone: nothing to compare from there on

    def watch(self, backend: Backend) -> Backend:
        """A wrapper around a backend, all of whose rows are compared."""
        return _Watched(backend, self.see)

    def see(self, row: Row, values: NDArray[np.float32]) -> None:
        """Compare one row; rows that are computed again are compared again."""
        number = row.request.request_id
        solo = self._solos[number]
        place = row.start + row.num_rows - len(row.request.prompt)
        if number in self._elsewhere or not _follows(row.tokens[-1], solo, place):
            self._elsewhere.add(number)
        elif place < len(solo.rows):
            self.num_rows += 1
            if digest_of(values) != solo.rows[place].digest:
                self.num_unlike += 1
                self.bits.setdefault(number, place)


def _follows(last: TokenId, solo: Solo, place: int) -> bool:
    """Whether a row's last token is what the answer alone has there; the prompt always is."""
    return place <= 0 or last == solo.tokens[place - 1]


class _Watched(FaultyBackend):
    """Any backend, each of whose rows of logits is shown to somebody."""

    def __init__(self, inner: Backend, see: Callable[[Row, NDArray[np.float32]], None]) -> None:
        super().__init__(inner)
        self._see = see

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """The inner call, shown row by row."""
        logits = super().decode(rows)
        wanting = [row for row in rows if row.wants_logits and row.num_rows]
        for row, values in zip(wanting, logits, strict=True):
            self._see(row, values)
        return logits
