"""Every gate, small, on the real model; in both placements where the placement could matter."""

from collections.abc import Iterator

import pytest

from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.testing.gates import GATES, SMALL, Backends, Gate, GateContext, run_gate
from arriero.testing.gates.exactness import EXACTNESS
from arriero.testing.gates.reference import REFERENCE

pytestmark = [pytest.mark.model, pytest.mark.slow]

PLACEMENTS: dict[str, Placement] = {"dedicated": Dedicated(), "shared": Shared()}
REUSE = {f"G{number}" for number in (*range(23, 34), *range(50, 53))}
"""What these promise is decided in memory and in the scheduler. The synthetic backend shows it in both placements."""


def cases() -> Iterator[object]:
    named = [(gate.name, gate) for gate in (*GATES, *EXACTNESS)]
    named += [(f"reference-{gate.name}", gate) for gate in REFERENCE]
    for number, (name, gate) in enumerate(named):
        words = [*PLACEMENTS]
        if gate.once:
            words = words[:1]
        elif gate.name in REUSE:
            words = [words[number % 2]]
        for word in words:
            yield pytest.param(gate, PLACEMENTS[word], id=f"{name}-{word}")


@pytest.mark.parametrize(("gate", "placement"), list(cases()))
def test_gate_passes_on_the_real_model(gate: Gate, placement: Placement, gate_backends: Backends) -> None:
    # in one of the placements a cancel may end the decode call it is in
    interrupts = isinstance(placement, Shared)
    context = GateContext(backends=gate_backends, placement=placement, size=SMALL, interrupts=interrupts)
    report = run_gate(gate, context)
    assert report.reason is None
    if gate.name == "G53":
        assert report.counts["stopped_while_it_computed"] == 1, "the call of the model itself was stopped"
