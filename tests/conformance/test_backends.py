"""Every backend passes the same suite; the one on llama.cpp in both KV layouts."""

from collections.abc import Callable, Iterator

import pytest

from arriero.backend.canonical_rows import CanonicalRows
from arriero.backend.context import ContextOptions, CopyChoice
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.library import process_start, process_stop
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import resolve_model
from arriero.backend.protocol import Backend
from arriero.backend.synthetic import SyntheticBackend, SyntheticOptions
from arriero.backend.synthetic_memory import SyntheticStore
from arriero.testing.fakes import FaultyBackend, ScriptedBackend
from arriero.testing.faults import Uncuttable
from arriero.testing.suites import BACKEND_CHECKS, MEMORY_CHECKS, BackendCheck, check_backend

MODEL_FREE: dict[str, Callable[[], Backend]] = {
    "synthetic-separate": lambda: SyntheticBackend(SyntheticOptions(num_rows=32, num_cells=400)),
    "synthetic-unified": lambda: SyntheticBackend(SyntheticOptions(num_rows=32, num_cells=100, unified=True)),
    "synthetic-separate-with-a-store": lambda: SyntheticBackend(
        SyntheticOptions(num_rows=32, num_cells=400), store=SyntheticStore()
    ),
    "synthetic-unified-with-a-store": lambda: SyntheticBackend(
        SyntheticOptions(num_rows=32, num_cells=100, unified=True), store=SyntheticStore(200)
    ),
    "scripted-with-a-store": lambda: ScriptedBackend(
        {1: (20, 21, 22, 23), 2: (30, 31), 3: (40, 41)}, store=SyntheticStore()
    ),
    "scripted": lambda: ScriptedBackend({1: (20, 21, 22, 23), 2: (30, 31), 3: (40, 41)}),
    "canonical-rows": lambda: CanonicalRows(
        SyntheticBackend(SyntheticOptions(num_sequences=8, num_rows=32, micro_batch=32, num_cells=8 * 103)),
        multiple=4,
        num_sequences=5,
    ),
    "faulty-without-faults": lambda: FaultyBackend(SyntheticBackend(SyntheticOptions())),
}


@pytest.fixture(scope="module")
def model() -> Iterator[LlamaModel]:
    process_start()
    loaded = LlamaModel(resolve_model("smollm2-135m"))
    yield loaded
    loaded.close()
    process_stop()


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("make", MODEL_FREE.values(), ids=MODEL_FREE)
def test_a_backend_without_a_model_conforms(make: Callable[[], Backend], check: BackendCheck) -> None:
    check(make())


def test_the_suite_runs_every_check_on_a_fresh_backend_and_closes_it() -> None:
    made: list[ClosingBackend] = []

    def make() -> Backend:
        made.append(ClosingBackend())
        return made[-1]

    check_backend(make)
    assert len(made) == len(BACKEND_CHECKS)
    assert all(backend.num_closed == 1 for backend in made)


class ClosingBackend(ScriptedBackend):
    def __init__(self) -> None:
        super().__init__({1: (20, 21, 22, 23), 2: (30, 31), 3: (40, 41)})
        self.num_closed = 0

    def close(self) -> None:
        self.num_closed += 1


@pytest.mark.parametrize("check", MEMORY_CHECKS, ids=lambda check: check.__name__)
def test_a_memory_that_cannot_be_cut_says_so(check: BackendCheck) -> None:
    backend = FaultyBackend(SyntheticBackend(store=SyntheticStore()), Uncuttable())
    assert not backend.reuse_support.trim
    check(backend)


LLAMA_CPP: dict[str, tuple[ContextOptions, HostStoreOptions | None]] = {
    "separate": (ContextOptions(ctx_size=1024, num_rows=128, num_threads=1), HostStoreOptions(max_bytes=64 << 20)),
    "separate-by-stream": (
        ContextOptions(ctx_size=1024, num_rows=128, num_threads=1, copy=CopyChoice.STREAM),
        HostStoreOptions(max_bytes=64 << 20),
    ),
    "unified": (
        ContextOptions(ctx_size=256, num_rows=128, num_threads=1, unified=True),
        HostStoreOptions(max_bytes=64 << 20),
    ),
    "without-a-store": (ContextOptions(ctx_size=1024, num_rows=128, num_threads=1), None),
}


@pytest.mark.model
@pytest.mark.parametrize(("options", "store"), LLAMA_CPP.values(), ids=LLAMA_CPP)
@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
def test_llama_cpp_conforms(
    model: LlamaModel, check: BackendCheck, options: ContextOptions, store: HostStoreOptions | None
) -> None:
    backend = LlamaCppBackend(model, options, store)
    try:
        check(backend)
    finally:
        backend.close()
