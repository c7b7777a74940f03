"""Continuous batching you can watch, measure and replay, on llama.cpp.

One request, top to bottom, and the folder that each step lives in:

    http        JSON in, a place in the backlog, tokens in order              event loop
    tokens      messages → token ids; ids → text                              workers; event loop
    engine      submit → inbox → actor: the live loop                         event loop → engine thread
    scheduler   waiting, admission, composition of a step, progress           wherever the loop runs
    kv          which cells, which sequence id, which runs are kept           〃
    prefix      how much of a prompt some run holds                           〃
    backend     rows → llama.cpp → logits → next tokens                       engine thread
    sim         the same scheduler, driven by a clock that jumps              nobody's thread

Importing the package loads none of them; each name below is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from arriero.core.version import VERSION

if TYPE_CHECKING:
    from arriero.backend.context import ContextOptions
    from arriero.backend.llama_cpp import LlamaCppBackend
    from arriero.backend.llama_model import LlamaModel
    from arriero.backend.protocol import Backend
    from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
    from arriero.core.config import ServeConfig
    from arriero.core.errors import ArrieroError, ConfigError
    from arriero.core.request import CancelReason, FinishReason, Request, SamplingParams
    from arriero.engine.engine import Engine
    from arriero.engine.handle import RequestHandle, Result, TokenStream
    from arriero.engine.observer import Observer, StepRecord
    from arriero.engine.options import EngineOptions
    from arriero.engine.placement import Dedicated, Shared
    from arriero.scheduler.draft import PrefillBudget
    from arriero.scheduler.scheduler import Scheduler
    from arriero.sim.simulator import Simulator

__version__ = VERSION

__all__ = (
    "ArrieroError",
    "Backend",
    "CancelReason",
    "ConfigError",
    "ContextOptions",
    "Dedicated",
    "Engine",
    "EngineOptions",
    "FinishReason",
    "LlamaCppBackend",
    "LlamaModel",
    "Observer",
    "PrefillBudget",
    "Request",
    "RequestHandle",
    "Result",
    "SamplingParams",
    "Scheduler",
    "ServeConfig",
    "Shared",
    "Simulator",
    "StepRecord",
    "SyntheticBackend",
    "SyntheticOptions",
    "TokenStream",
)

_HOMES: Final = (
    ("arriero.backend.context", ("ContextOptions",)),
    ("arriero.backend.llama_cpp", ("LlamaCppBackend",)),
    ("arriero.backend.llama_model", ("LlamaModel",)),
    ("arriero.backend.protocol", ("Backend",)),
    ("arriero.backend.synthetic", ("SyntheticBackend", "SyntheticOptions")),
    ("arriero.core.config", ("ServeConfig",)),
    ("arriero.core.errors", ("ArrieroError", "ConfigError")),
    ("arriero.core.request", ("CancelReason", "FinishReason", "Request", "SamplingParams")),
    ("arriero.engine.engine", ("Engine",)),
    ("arriero.engine.handle", ("RequestHandle", "Result", "TokenStream")),
    ("arriero.engine.observer", ("Observer", "StepRecord")),
    ("arriero.engine.options", ("EngineOptions",)),
    ("arriero.engine.placement", ("Dedicated", "Shared")),
    ("arriero.scheduler.draft", ("PrefillBudget",)),
    ("arriero.scheduler.scheduler", ("Scheduler",)),
    ("arriero.sim.simulator", ("Simulator",)),
)


def __getattr__(name: str) -> object:
    """Load a public name from where it lives; the module keeps it from then on."""
    home = next((module for module, names in _HOMES if name in names), None)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
