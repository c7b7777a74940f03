"""Whether llama.cpp really cuts decode calls as the cost model says: its own graphs are watched."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from arriero.backend.batch import LlamaBatch
from arriero.backend.llama_model import LlamaModel
from arriero.core.ids import SequenceId
from arriero.core.plan import PrefillChunk
from arriero.costmodel.passes import PassRules, Stretch, split
from arriero.engine.logit_bench import made_up_request

pytestmark = pytest.mark.model

NUM_SEQUENCES = 6
MICRO_BATCH = 32
ROWS_OFFSET = 24  # of `ne[1]` in a ggml_tensor: type, padding, buffer, ne[0]
REQUEST = made_up_request(1, 200)


class PassWatch:
    """Notes the number of rows of each graph that is computed: that of its first layer's input."""

    def __init__(self, model: LlamaModel) -> None:
        self.rows: list[int] = []
        name_of = ctypes.CDLL(model.library.structs._lib._name).ggml_get_name
        name_of.argtypes, name_of.restype = [ctypes.c_void_p], ctypes.c_char_p

        def seen(tensor: int, ask: bool, data: int) -> bool:  # noqa: ARG001, FBT001 - as llama.cpp calls it
            if ask and name_of(tensor) == b"attn_norm-0":
                self.rows.append(ctypes.c_int64.from_address(tensor + ROWS_OFFSET).value)
            return False

        self.callback: Any = model.library.structs.ggml_backend_sched_eval_callback(seen)


@contextmanager
def watched(model: LlamaModel, *, unified: bool) -> Iterator[tuple[PassWatch, int]]:
    watch, library = PassWatch(model), model.library
    parameters = library.long("llama_context_default_params")()
    parameters.n_ctx, parameters.n_seq_max = 256 * NUM_SEQUENCES, NUM_SEQUENCES
    parameters.n_batch, parameters.n_ubatch, parameters.kv_unified = 128, MICRO_BATCH, unified
    parameters.n_threads = parameters.n_threads_batch = 1
    parameters.cb_eval = watch.callback
    handle = library.long("llama_init_from_model")(model.handle, parameters)
    try:
        yield watch, handle
    finally:
        library.long("llama_free")(handle)


def chunk(sequence_id: int, num_rows: int) -> Stretch:
    return Stretch(sequence_id, 0, num_rows, wants_logits=False)


STEPS = [
    [chunk(each, 1) for each in range(6)],
    [chunk(0, 1), chunk(1, 1), chunk(3, 1)],
    [chunk(0, 1), chunk(2, 1), chunk(4, 1)],
    [chunk(0, 1), chunk(1, 1), chunk(2, 20), chunk(5, 1)],
    [chunk(0, 20), chunk(1, 1), chunk(2, 1)],
    [chunk(1, 7), chunk(2, 12), chunk(3, 3)],
    [chunk(0, 100)],
    [chunk(0, 1), chunk(1, 90)],
    [chunk(0, 40), chunk(1, 40), chunk(2, 40)],
    [chunk(1, 5), chunk(4, 9), chunk(5, 9)],
]


@pytest.mark.parametrize("unified", [False, True], ids=["separate", "unified"])
def test_llama_cpp_cuts_steps_as_the_model_says(model: LlamaModel, unified: bool) -> None:  # noqa: FBT001
    rules = PassRules(micro_batch=MICRO_BATCH, unified=unified, stream_cells=256)
    with watched(model, unified=unified) as (watch, handle):
        library, batch = model.library, LlamaBatch(model.library, 128)
        memory = library.short("llama_get_memory")(handle)
        for step in STEPS:
            library.long("llama_memory_clear")(memory, True)  # noqa: FBT003 - a C function
            watch.rows.clear()
            batch.fill(rows_of(step))
            assert library.long("llama_decode")(handle, batch.struct) == 0
            assert watch.rows == [one.rows for one in split(step, rules)], step


def rows_of(step: Sequence[Stretch]) -> list[PrefillChunk]:
    return [
        PrefillChunk(REQUEST, SequenceId(each.sequence_id), 0, REQUEST.prompt[: each.num_rows], wants_logits=False)
        for each in step
    ]
