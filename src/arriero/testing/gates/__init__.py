"""Gates: named promises, each checked by one function on a real engine; tests and `arriero gate` call the same ones."""

from arriero.testing.gates.backends import Backends, LlamaBackends, Shape, SyntheticBackends, open_backends
from arriero.testing.gates.catalogue import GATES
from arriero.testing.gates.command import main
from arriero.testing.gates.context import PUBLISHED, SMALL, GateContext, GateSize
from arriero.testing.gates.findings import Findings, GateReport
from arriero.testing.gates.registry import Gate, run_gate

__all__ = [
    "GATES",
    "PUBLISHED",
    "SMALL",
    "Backends",
    "Findings",
    "Gate",
    "GateContext",
    "GateReport",
    "GateSize",
    "LlamaBackends",
    "Shape",
    "SyntheticBackends",
    "main",
    "open_backends",
    "run_gate",
]
