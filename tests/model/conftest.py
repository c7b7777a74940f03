"""The real small model, loaded once; tests here make contexts of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from arriero.backend.context import ContextOptions
from arriero.backend.library import process_start, process_stop
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.vocabulary import LlamaVocabulary
from arriero.core.config import FlashAttention, ServeConfig
from arriero.core.option_kinds import Threads
from arriero.testing.gates import Backends, LlamaBackends
from arriero.testing.shortened_model import shorten

SMALL = ContextOptions(ctx_size=1024, num_threads=1, flash_attention=FlashAttention.OFF)
# one thread: two of them wait for each other at every barrier while other tests keep the machine busy; and what exact
# mode is proven with ends with a chunk as long as the micro-batch
SHORT_LAYERS = 3
GATES = ServeConfig(ctx_size=12 * 256, sequences=12, batch=512, micro_batch=128, threads=Threads(1, 1))


@pytest.fixture(scope="session")
def llama_process() -> Iterator[None]:
    """llama.cpp, started once for the whole run."""
    process_start()
    yield
    process_stop()


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The embedded model's file."""
    return resolve_model("smollm2-135m")


@pytest.fixture(scope="session")
def model(llama_process: None, model_path: Path) -> Iterator[LlamaModel]:
    """The embedded model, loaded."""
    del llama_process
    loaded = LlamaModel(model_path)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def vocabulary(model: LlamaModel) -> LlamaVocabulary:
    """The embedded model's vocabulary."""
    return LlamaVocabulary(model)


@pytest.fixture(scope="session")
def short_path(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model's first layers: real rows, memory and bits in a tenth of the time. It talks nonsense."""
    return shorten(model_path, tmp_path_factory.mktemp("model") / "short.gguf", SHORT_LAYERS)


@pytest.fixture(scope="session")
def short_model(llama_process: None, short_path: Path) -> Iterator[LlamaModel]:
    """The same, loaded."""
    del llama_process
    loaded = LlamaModel(short_path)
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def gate_backends(short_model: LlamaModel) -> Backends:
    """What gates run on: contexts of their own, of one loaded model, for which exact mode is proven once."""
    return LlamaBackends(short_model, GATES)


class MakeBackend(Protocol):
    """Makes a backend over the embedded model, or another one."""

    def __call__(self, options: ContextOptions = ..., *, model: LlamaModel | None = None) -> LlamaCppBackend: ...


@pytest.fixture
def make_backend(model: LlamaModel) -> Iterator[MakeBackend]:
    """Backends that are closed at the end of the test; small, exact and with one thread unless told otherwise."""
    made: list[LlamaCppBackend] = []
    default = model

    def make(options: ContextOptions = SMALL, *, model: LlamaModel | None = None) -> LlamaCppBackend:
        made.append(LlamaCppBackend(model or default, options))
        return made[-1]

    yield make
    for backend in made:
        backend.close()
