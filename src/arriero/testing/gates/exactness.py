"""`arriero gate exactness`: whether a request's bits depend on its company, measured on the loaded model.

Which weight formats pass is a property of the build and of the machine, so it is tested and never assumed. Logits are
compared as bytes, row by row: requests that arrive one after another and run together against each of them alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arriero.backend.protocol import Backend
from arriero.core.plan import Row
from arriero.engine.observer import StepRecord
from arriero.engine.options import EngineOptions
from arriero.scheduler.draft import PrefillBudget
from arriero.testing.fakes import FaultyBackend
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.containment import Wrapped
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.registry import Gate
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.solo import digest_of

Digests: TypeAlias = dict[tuple[int, int], bytes]
"""A digest of a row of logits, by request id and position."""

CAPS: Final = (None, 32)


class Recorder(FaultyBackend):
    """Any backend, of whose logits the digests are kept."""

    def __init__(self, inner: Backend, digests: Digests) -> None:
        """Digests go where they are told to, so that they outlive the backend."""
        super().__init__(inner)
        self._digests = digests

    def decode(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """The inner call; every row of its answer is noted."""
        logits = super().decode(rows)
        wanting = [row for row in rows if row.wants_logits and row.num_rows]
        for row, values in zip(wanting, logits, strict=True):
            place = (row.request.request_id, row.start + row.num_rows)
            self._digests[place] = digest_of(values)
        return logits


class _Arrivals:
    """Submits one more request when a step ends, until all are there."""

    def __init__(self, context: GateContext, rig: Rig, numbers: Sequence[int]) -> None:
        self._context = context
        self._rig = rig
        self._left = list(numbers)

    def __call__(self, record: StepRecord | None = None) -> None:
        """Submit the next one."""
        del record
        if self._left:
            number = self._left.pop(0)
            size = self._context.size
            prompt = self._context.tokens(size.exact_prompts[number], start=number)
            self._rig.submit(prompt, size.exact_answer, request_id=number)


async def _run(
    context: GateContext, findings: Findings, numbers: Sequence[int], cap: int | None, *, exact: bool
) -> tuple[RunRecord, Digests]:
    digests: Digests = {}
    recorded = replace(context, backends=Wrapped(context.backends, lambda backend: Recorder(backend, digests)))
    positions = max(context.size.exact_prompts) + context.size.exact_answer
    shape = Shape(num_sequences=len(numbers), positions=positions, exact=True)
    options = EngineOptions(keep_alive=False, exact=exact, budget=PrefillBudget(per_sequence=cap))
    async with Rig(recorded, findings, shape, options) as rig:
        arrivals = _Arrivals(context, rig, numbers)
        arrivals()
        rig.log.after_step(arrivals)
        return await rig.run(), digests


async def check_company(context: GateContext, findings: Findings) -> None:
    """Exact mode gives every request the bits that it has alone; without its rule, what happens is only counted."""
    everybody = range(len(context.size.exact_prompts))
    alone: dict[int, tuple[RunRecord, Digests]] = {}
    for number in everybody:
        context.on_progress(f"request {number} alone")
        alone[number] = await _run(context, findings, [number], None, exact=True)
    solo = {place: digest for _, digests in alone.values() for place, digest in digests.items()}
    findings.count("rows", len(solo))
    for cap in CAPS:
        for exact in (True, False):
            word = f"{'exact' if exact else 'plain'}_B{cap or 0}"
            context.on_progress(f"together, {word}")
            run, digests = await _run(context, findings, everybody, cap, exact=exact)
            same_rows = sum(digests.get(place) == digest for place, digest in solo.items())
            same = sum(run.of(number).tokens == alone[number][0].of(number).tokens for number in everybody)
            if exact:
                findings.equal(f"same_rows_{word}", same_rows, len(solo))
                findings.equal(f"same_tokens_{word}", same, len(everybody))
            else:
                findings.count(f"same_rows_{word}", same_rows)
                findings.count(f"same_tokens_{word}", same)


EXACTNESS: Final = (Gate("EXACT", "the same bits alone and in company", check_company, once=True),)
