"""Every gate, small, on the real model, in both placements."""

import pytest

from arriero.backend.llama_model import LlamaModel
from arriero.core.config import ServeConfig
from arriero.core.option_kinds import Threads
from arriero.engine.placement import Dedicated, Placement, Shared
from arriero.testing.gates import GATES, SMALL, Backends, Gate, GateContext, LlamaBackends, run_gate
from arriero.testing.gates.exactness import EXACTNESS
from arriero.testing.gates.reference import REFERENCE

pytestmark = [pytest.mark.model, pytest.mark.slow]

# one thread: two of them wait for each other at every barrier while other tests keep the machine busy
CONFIG = ServeConfig(ctx_size=12 * 256, sequences=12, batch=512, threads=Threads(1, 1))

NAMES = [*(gate.name for gate in (*GATES, *EXACTNESS)), *(f"reference-{gate.name}" for gate in REFERENCE)]


@pytest.fixture(scope="module")
def backends(model: LlamaModel) -> Backends:
    """One loaded model for all gates; each run makes a context of its own."""
    return LlamaBackends(model, CONFIG)


@pytest.mark.parametrize("placement", [Dedicated(), Shared()], ids=["dedicated", "shared"])
@pytest.mark.parametrize("gate", [*GATES, *EXACTNESS, *REFERENCE], ids=NAMES)
def test_gate_passes_on_the_real_model(gate: Gate, placement: Placement, backends: Backends) -> None:
    report = run_gate(gate, GateContext(backends=backends, placement=placement, size=SMALL))
    assert report.reason is None
