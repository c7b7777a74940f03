"""Every gate, small, on the real model; in both placements where the placement could matter."""

from collections.abc import Iterator

import pytest

from arriero.backend.llama_model import LlamaModel
from arriero.core.config import ServeConfig
from arriero.core.option_kinds import Threads
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.testing.gates import GATES, SMALL, Backends, Gate, GateContext, LlamaBackends, run_gate
from arriero.testing.gates.exactness import EXACTNESS
from arriero.testing.gates.reference import REFERENCE

pytestmark = [pytest.mark.model, pytest.mark.slow]

# one thread: two of them wait for each other at every barrier while other tests keep the machine busy; and the proof
# of exact mode, which every worker has to make once, is as long as the longest chunk
CONFIG = ServeConfig(ctx_size=12 * 256, sequences=12, batch=512, micro_batch=128, threads=Threads(1, 1))

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


@pytest.fixture(scope="module")
def backends(model: LlamaModel) -> Backends:
    """One loaded model for all gates; each run makes a context of its own."""
    return LlamaBackends(model, CONFIG)


@pytest.mark.parametrize(("gate", "placement"), list(cases()))
def test_gate_passes_on_the_real_model(gate: Gate, placement: Placement, backends: Backends) -> None:
    report = run_gate(gate, GateContext(backends=backends, placement=placement, size=SMALL))
    assert report.reason is None
