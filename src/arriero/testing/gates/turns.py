"""Turns: requests of named sessions on one rig, one after another, and the same ones computed without any reuse."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from arriero.core.config import KvLayout
from arriero.core.ids import TokenId
from arriero.engine.actor import Clock, monotonic_us
from arriero.engine.handle import RequestHandle, Result
from arriero.engine.options import EngineOptions
from arriero.kv.reuse import ReuseFigures, ReuseRules, SessionFigures
from arriero.testing.gates.backends import Shape
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings
from arriero.testing.gates.rig import Rig
from arriero.testing.gates.run_record import RunRecord
from arriero.testing.gates.solo import SoloBook

LAYOUTS: Final = (KvLayout.UNIFIED, KvLayout.SEPARATE)
POSITIONS: Final = 200
"""What one sequence of these gates holds, prompt and answer together."""

NEAR_TIE: Final = 0.25
"""Logits between two tokens that rounding may swap."""

PUBLISHED_RULES: Final = ReuseRules(per_session=True, min_partial=32, regenerate=False)
"""Runs belong to sessions, stay in their slots, and are continued there or not at all."""


@dataclass(frozen=True, slots=True)
class Turns:
    """A rig whose engine runs, and the gate's way of asking it.

    Attributes:
        context: of the gate.
        layout: of its KV memory.
        rig: the engine.
    """

    context: GateContext
    layout: KvLayout
    rig: Rig

    def submit(self, prompt: Sequence[TokenId], budget: int, session: str | None = None) -> RequestHandle:
        """A request of a session; without one it reuses nothing and leaves nothing."""
        return self.rig.submit(prompt, budget, session_id=session, cache_scope=session)

    async def ask(self, prompt: Sequence[TokenId], budget: int, session: str | None = None) -> Result:
        """The same, to its end."""
        return await self.submit(prompt, budget, session).result()

    async def figures(self) -> ReuseFigures:
        """The counts of this moment."""
        snapshot = await self.rig.engine.ask_snapshot()
        return reuse_of(snapshot.scheduler.reuse)

    async def published(self) -> SessionFigures:
        """Those with published names."""
        return (await self.figures()).sessions


@asynccontextmanager
async def open_turns(
    context: GateContext,
    findings: Findings,
    layout: KvLayout,
    *,
    slots: int,
    rules: ReuseRules | None = PUBLISHED_RULES,
    shape: Shape | None = None,
    retained: int = 0,
    clock: Clock = monotonic_us,
) -> AsyncGenerator[Turns]:
    """A started rig of so many slots in this layout; ended and checked at the end of the block."""
    context.on_progress(f"{layout.value}")
    chosen = Shape(num_sequences=slots + retained, positions=POSITIONS, layout=layout) if shape is None else shape
    options = EngineOptions(reuse=rules, retained=retained)
    async with Rig(context, findings, chosen, options, clock=clock) as rig:
        rig.start()
        yield Turns(context, layout, rig)
        await rig.stop()


async def compare_with_fresh(
    context: GateContext, findings: Findings, layout: KvLayout, prompt: Sequence[TokenId], seen: tuple[TokenId, ...]
) -> None:
    """An answer must be that of a full prefill, alone in the same layout; a near tie may fall otherwise, and is told.

    KV that was decoded has other last bits than KV that was prefilled, so two equally likely tokens may change places.
    """
    shape = Shape(num_sequences=1, positions=POSITIONS, layout=layout)
    async with SoloBook(context, findings, shape, EngineOptions()) as book:
        solo = await book.answer(prompt, len(seen))
    place = next((place for place, pair in enumerate(zip(seen, solo.tokens, strict=True)) if pair[0] != pair[1]), None)
    if place is None:
        return
    gap = solo.gap(place, seen[place])
    findings.count(f"{layout}_near_tie_at", place)
    findings.count(f"{layout}_near_tie_gap", float(f"{gap.logits:.3g}"))
    rule = f"{layout}: the answer is that of a full prefill, or differs by a near tie, not by a gap of {gap} logits"
    findings.holds(rule, holds=gap.is_exact and gap.logits <= NEAR_TIE)


def diverging(context: GateContext, base: Sequence[TokenId], common: int, more: int) -> tuple[TokenId, ...]:
    """A prompt that has exactly so many first tokens in common with another one, and `more` of its own."""
    own = next(
        tokens
        for start in range(1, len(base))
        if (tokens := context.tokens(more, start))[0] != (base[common] if common < len(base) else None)
    )
    return (*base[:common], *own)


def reuse_of(figures: ReuseFigures | None) -> ReuseFigures:
    """The figures of an engine that has rules of reuse."""
    assert figures is not None, "an engine with rules has figures"
    return figures


def reuse_at_end(run: RunRecord) -> ReuseFigures:
    """The figures after everything was cleared."""
    return reuse_of(run.summary.snapshot.scheduler.reuse)
