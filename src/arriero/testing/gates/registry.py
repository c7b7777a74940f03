"""Gate: a named promise and the function that checks it; and how one is run."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from arriero.core.errors import ArrieroError, ConfigError
from arriero.testing.gates.context import GateContext
from arriero.testing.gates.findings import Findings, GateReport

GateFunction: TypeAlias = Callable[[GateContext, Findings], Awaitable[None]]

DEFAULT_LIMIT_S: Final = 1800.0
NO_PLACEMENT: Final = "-"


@dataclass(frozen=True, slots=True)
class Gate:
    """A named promise.

    Attributes:
        name: `G` and a number.
        title: what it promises, in a few words.
        check: the function; notes what it sees in its findings.
        limit_s: a gate that takes longer has failed. Generous: it is there for hangs, not for speed.
        own_shape: its shape comes from the command line, so a configuration that cannot work is the caller's mistake.
        needs_engine: without one it needs no model either, and is run once, wherever engines run.
        once: run in the first placement only, since the placement does not matter to it and it takes long.
    """

    name: str
    title: str
    check: GateFunction
    limit_s: float = DEFAULT_LIMIT_S
    own_shape: bool = False
    needs_engine: bool = True
    once: bool = False


def run_gate(gate: Gate, context: GateContext) -> GateReport:
    """Run one gate on an event loop of its own; whatever goes wrong is in the report.

    Raises:
        ConfigError: the configuration cannot work, and the gate's shape is the caller's own.
    """
    findings = Findings()
    began = time.monotonic()
    try:
        asyncio.run(_limited(gate, context, findings))
    except TimeoutError:
        findings.broke(f"it was not over after {gate.limit_s:g} s")
    except ArrieroError as problem:
        if gate.own_shape and isinstance(problem, ConfigError):
            raise
        findings.broke(str(problem))
    except Exception as problem:  # noqa: BLE001 - a gate that raises has failed, and the others go on
        findings.broke(f"it raised {type(problem).__name__}: {problem}")
    return GateReport(
        name=gate.name,
        title=gate.title,
        placement=context.placement_word if gate.needs_engine else NO_PLACEMENT,
        passed=findings.reason is None,
        counts=findings.counts,
        reason=findings.reason,
        seconds=round(time.monotonic() - began, 3),
        notes=findings.notes,
    )


async def _limited(gate: Gate, context: GateContext, findings: Findings) -> None:
    async with asyncio.timeout(gate.limit_s):
        await gate.check(context, findings)
