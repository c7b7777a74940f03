"""G53: a cancel ends the decode call that computes for its request; the others' answers are what they were."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from arriero.backend.protocol import DecodeInterrupted
from arriero.core.plan import Interrupted, Row
from arriero.core.request import FinishReason
from arriero.engine.options import EngineOptions
from arriero.testing.fakes import FaultyBackend
from arriero.testing.faults import BlockedCall, Fault
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.containment import Wrapped
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord

CULPRIT: Final = 1
OTHERS: Final = (0, 2)
PROMPT_LENGTH: Final = 50
HELD_CALL: Final = 2
PAUSE_S: Final = 0.003
"""From the beginning of a call until it is cancelled: long enough to be inside it, and short beside a prompt."""

LIMIT_S: Final = 10.0

_OPTIONS: Final = EngineOptions(keep_alive=False, interrupt_after_ms=0.0)


class LastingCall(Fault):
    """One decode call computes as ever and does not end before it is interrupted, however soon it has computed.

    Attributes:
        entered: set when the call has begun.
        has_computed: whether it came to its end by itself.
    """

    def __init__(self, call: int) -> None:
        """Name the call."""
        self.entered = threading.Event()
        self.has_computed = False
        self._call = call
        self._interrupted = threading.Event()

    def before_decode(self, call: int, rows: Sequence[Row]) -> None:
        """Tell that it begins."""
        del rows
        if call == self._call:
            self.entered.set()

    def after_decode(self, call: int, rows: Sequence[Row]) -> None:
        """Wait for the interrupt."""
        del rows
        if call == self._call:
            self.has_computed = True
            if self._interrupted.wait(LIMIT_S):
                raise DecodeInterrupted("the decode call was interrupted", code="interrupted")

    def interrupt(self) -> None:
        """End the wait, if the call has begun."""
        if self.entered.is_set():
            self._interrupted.set()


async def check_interrupted(context: GateContext, findings: Findings) -> None:
    """One of three requests is cancelled inside a call: one that is held there, and one that computes their prompts."""
    plain = await _run(context, findings, None)
    held = await _run(context, findings, BlockedCall(HELD_CALL))
    findings.equal("held_decoded", held.of(CULPRIT).num_decoded, HELD_CALL)
    lasting = LastingCall(0)
    computing = await _run(context, findings, lasting)
    findings.equal("computing_decoded", computing.of(CULPRIT).num_decoded, 0)
    # a formula has computed before anybody can cancel
    findings.count("stopped_while_it_computed", int(not lasting.has_computed))
    for word, run in (("held", held), ("computing", computing)):
        findings.equal(f"{word}_interrupted", run.summary.snapshot.totals.interrupted_calls, 1)
        steps = [record.plan.step for record in run.log.records if isinstance(record.outcome, Interrupted)]
        findings.equal(f"{word}_steps_done_again", len(steps), 1)
        findings.equal(f"{word}_status", run.of(CULPRIT).reason, FinishReason.CANCELLED)
        same = sum(run.of(number).tokens == plain.of(number).tokens for number in OTHERS)
        findings.equal(f"{word}_others_as_without", same, len(OTHERS))


async def _run(context: GateContext, findings: Findings, fault: BlockedCall | LastingCall | None) -> RunRecord:
    budget = context.size.budgets[1]
    backends = context.backends
    if fault is not None:
        backends = Wrapped(backends, lambda backend: FaultyBackend(backend, fault))
    shape = Shape(num_sequences=1 + len(OTHERS), positions=PROMPT_LENGTH + budget, exact=True)
    async with Rig(replace(context, backends=backends), findings, shape, _OPTIONS) as rig:
        for number in sorted((CULPRIT, *OTHERS)):
            rig.submit(context.tokens(PROMPT_LENGTH, number), budget, request_id=number)
        rig.start()
        if fault is not None:
            await asyncio.to_thread(fault.entered.wait, LIMIT_S)
            await asyncio.sleep(PAUSE_S)
            rig.engine.cancel(CULPRIT)
        return await rig.finish()
