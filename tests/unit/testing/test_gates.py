"""Every gate, small, on the synthetic backend, in both placements; and that each kind of gate can fail."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.config import ServeConfig
from arriero.core.events import DropSequence, KvOp, SaveSequence, TrimSequence
from arriero.core.ids import SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import FailedCall, Fault
from arriero.testing.gates import (
    GATES,
    SMALL,
    Findings,
    Gate,
    GateContext,
    GateReport,
    SyntheticBackends,
    run_gate,
)
from arriero.testing.gates.containment import Wrapped
from arriero.testing.gates.exactness import EXACTNESS

CONFIG = ServeConfig(ctx_size=12 * 256, sequences=12, batch=512)
PLACEMENTS = [Dedicated(), Shared()]
BY_NAME = {gate.name: gate for gate in (*GATES, *EXACTNESS)}


def small(
    placement: Placement, wrap: Callable[[Backend], Backend] | None = None, *, interrupts: bool = False
) -> GateContext:
    backends = SyntheticBackends(CONFIG, step_s=0.0003)  # a call that waits gives others their turn, as a real one does
    return GateContext(
        backends=backends if wrap is None else Wrapped(backends, wrap),
        placement=placement,
        size=SMALL,
        interrupts=interrupts,
    )


def outcome(name: str, wrap: Callable[[Backend], Backend], placement: Placement | None = None) -> GateReport:
    gate = replace(BY_NAME[name], limit_s=20)
    return run_gate(gate, small(Dedicated() if placement is None else placement, wrap))


@pytest.mark.parametrize("placement", PLACEMENTS, ids=["dedicated", "shared"])
@pytest.mark.parametrize("gate", GATES, ids=[gate.name for gate in GATES])
def test_gate_passes_on_the_synthetic_backend(gate: Gate, placement: Placement) -> None:
    report = run_gate(gate, small(placement, interrupts=isinstance(placement, Shared)))
    assert report.reason is None
    assert report.passed
    assert report.counts


@pytest.mark.parametrize("name", ["G3", "G4", "G5", "G7", "G11", "G13", "G19", "G31", "G36"])
def test_gate_with_a_cancel_passes_where_it_may_end_a_call_of_a_thread_of_its_own(name: str) -> None:
    assert run_gate(BY_NAME[name], small(Dedicated(), interrupts=True)).reason is None


def test_every_published_gate_is_there() -> None:
    assert [gate.name for gate in GATES] == [f"G{number}" for number in range(1, 55)]


# ── wrong backends ──────────────────────────────────────────────────────────────────────────────────────────────────


class NeverClears(FaultyBackend):
    """Says that it has cleared, and has not."""

    def apply(self, op: KvOp) -> bool:
        return True if isinstance(op, DropSequence) else super().apply(op)


class ClearsEverything(FaultyBackend):
    """Clears the neighbours too."""

    def apply(self, op: KvOp) -> bool:
        del op
        every_id = map(SequenceId, range(self.limits.num_sequences))
        return all(super(ClearsEverything, self).apply(DropSequence(each)) for each in every_id)


class HeedsCompany(FaultyBackend):
    """Its answers depend on who else is in the batch."""

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        return np.roll(super().decode(rows), len(rows), axis=1)


class SpeaksBySlot(FaultyBackend):
    """Its answers depend on the slot."""

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        logits = super().decode(rows)
        wanting = [row.sequence_id for row in rows if row.wants_logits and row.num_rows]
        return np.stack([np.roll(row, slot) for row, slot in zip(logits, wanting, strict=True)]) if wanting else logits


class HearsNeighbours(FaultyBackend):
    """A decode row's answer depends on the content of a prompt beside it."""

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        logits = super().decode(rows)
        heard = sum(sum(row.tokens) for row in rows if not isinstance(row, DecodeRow))
        return np.roll(logits, heard, axis=1)


class NeverTrims(FaultyBackend):
    """Leaves what a failed decode call has put into memory, and says otherwise."""

    def apply(self, op: KvOp) -> bool:
        return True if isinstance(op, TrimSequence) else super().apply(op)


class HeedsChunks(FaultyBackend):
    """Its answer to a prompt depends on how much of it was computed in the last call."""

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        logits = super().decode(rows)
        lengths = [row.num_rows for row in rows if row.wants_logits and row.num_rows]
        return np.stack([np.roll(row, each) for row, each in zip(logits, lengths, strict=True)]) if lengths else logits


class ForgetsPrefixes(FaultyBackend):
    """Its answer to a prompt that does not begin at its beginning is another one."""

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        logits = super().decode(rows)
        moved = [isinstance(row, PrefillChunk) and row.start > 0 for row in rows if row.wants_logits and row.num_rows]
        return np.stack([np.roll(row, each) for row, each in zip(logits, moved, strict=True)]) if moved else logits


class NeverSaves(FaultyBackend):
    """Has a host store that is always full."""

    def apply(self, op: KvOp) -> bool:
        return False if isinstance(op, SaveSequence) else super().apply(op)


class Restless(FaultyBackend):
    """Never says the same twice."""

    calls = 0

    def __init__(self, inner: Backend, *faults: Fault) -> None:
        super().__init__(inner, *faults)
        Restless.calls += 7
        self._start = Restless.calls

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        return np.roll(super().decode(rows), self._start, axis=1)


@pytest.mark.parametrize(
    ("name", "wrap", "word"),
    [
        ("G1", NeverClears, "KV is left"),
        ("G1", ClearsEverything, "crashed"),
        ("G1", SpeaksBySlot, "begins as the longest answer"),
        ("G2", SpeaksBySlot, "hashes_"),
        ("G2", Restless, "first one again"),
        ("G3", NeverClears, "KV is left"),
        ("G5", HeedsCompany, "without the cancel"),
        ("G12", NeverClears, "KV is left"),
        ("G18", Restless, "the same again"),
        ("G20", HearsNeighbours, "anchor_hashes"),
        ("G21", HearsNeighbours, "anchor_hashes"),
        ("G23", NeverClears, "KV is left"),
        ("G24", Restless, "the same rows by hand"),
        ("G24", ForgetsPrefixes, "full prefill"),
        ("G27", NeverTrims, "unified_partial is 0"),
        ("G27", ForgetsPrefixes, "full prefill"),
        ("G32", NeverClears, "KV is left"),
        ("G33", HeedsChunks, "chat_exact_other_answers"),
        ("G50", NeverClears, "KV is left"),
        ("G52", Restless, "full prefill"),
        ("G44", Restless, "the same"),
        ("G47", HeedsCompany, "same_tokens_exact"),
        ("G49", HeedsCompany, "others_as_alone"),
        ("G54", HeedsCompany, "exact_same_answers"),
        ("G54", NeverSaves, "exact_came_back"),
        ("EXACT", HeedsCompany, "same_rows_exact"),
    ],
)
def test_gate_fails_on_a_backend_that_is_wrong(name: str, wrap: Callable[[Backend], Backend], word: str) -> None:
    report = outcome(name, wrap)
    assert not report.passed
    assert report.reason is not None
    assert word in report.reason


@pytest.mark.parametrize("placement", PLACEMENTS, ids=["dedicated", "shared"])
def test_one_bad_request_harms_no_other_even_where_memory_trims_nothing(placement: Placement) -> None:
    assert outcome("G49", NeverTrims, placement).reason is None


@pytest.mark.parametrize("name", ["G34", "G35", "G36", "G40"])
def test_http_gate_fails_if_the_engine_cannot_compute(name: str) -> None:
    report = outcome(name, lambda backend: FaultyBackend(backend, FailedCall(*range(1000))))
    assert not report.passed


# ── running a gate ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_gate_that_hangs_has_failed_when_its_time_is_over() -> None:
    async def hang(_: GateContext, __: Findings) -> None:
        await asyncio.Event().wait()

    report = run_gate(Gate("G0", "hangs", hang, limit_s=0.01), small(Dedicated()))
    assert report.reason == "it was not over after 0.01 s"


def test_gate_that_raises_has_failed_with_the_reason() -> None:
    async def crash(_: GateContext, __: Findings) -> None:
        raise LookupError("no such step")

    report = run_gate(Gate("G0", "raises", crash), small(Shared()))
    assert report.reason == "it raised LookupError: no such step"
    assert report.placement == "shared"


def test_first_broken_promise_is_the_reason_and_the_others_are_counted() -> None:
    findings = Findings()
    findings.equal("steps", [1, 2], [1, 2])
    findings.equal("rows", 3, 4)
    findings.holds("the sun shines", holds=False)
    assert findings.reason == "rows is 3, promised 4 (and 1 more)"
    assert findings.counts == {"steps": [1, 2], "rows": 3}
