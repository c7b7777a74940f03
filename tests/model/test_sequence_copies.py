"""Copies, moves, trims and saved runs on the real model, bit by bit.

With separate streams and attention that is not fused, a sequence that was filled in any of these ways gives the same
logits, in every bit, as one that computed its tokens itself.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arriero.backend.context import ContextOptions, CopyChoice
from arriero.backend.host_store import HostStoreOptions
from arriero.backend.llama_cpp import LlamaCppBackend
from arriero.backend.llama_model import LlamaModel
from arriero.backend.models import WeightFormat, quantize
from arriero.backend.protocol import Backend
from arriero.core.config import FlashAttention, KvType
from arriero.core.errors import ConfigError
from arriero.core.events import (
    CopySequence,
    DropSequence,
    ForgetSaved,
    KvOp,
    MoveSequence,
    RestoreSequence,
    SavedRun,
    SaveSequence,
    TrimSequence,
)
from arriero.core.ids import RequestId, SavedKey, SequenceId
from arriero.core.plan import DecodeRow, PrefillChunk, Row
from arriero.core.request import Request
from arriero.testing.faults import damage_file, truncate_file

pytestmark = pytest.mark.model

EXACT = ContextOptions(
    ctx_size=5 * 256, num_sequences=5, num_rows=128, num_threads=1, flash_attention=FlashAttention.OFF
)
UNIFIED = replace(EXACT, ctx_size=768, unified=True)
ROOM = HostStoreOptions(max_bytes=64 << 20)
LENGTH, CUT = 80, 33
HERE, THERE, OTHER, THIRD, FOURTH = map(SequenceId, range(5))
KEY = SavedKey(1)
PROMPT = tuple(int(token) for token in np.random.default_rng(5).integers(100, 40_000, LENGTH))
REQUEST = Request(request_id=RequestId(1), prompt=PROMPT, max_tokens=9, arrival_at=0)
SAVE = SaveSequence(HERE, KEY, LENGTH, "scope", PROMPT)
MakeBackend = Callable[..., LlamaCppBackend]
Said = tuple[bytes, list[bytes]]


def prefill(backend: Backend, sequence_id: SequenceId, start: int = 0, end: int = LENGTH) -> np.ndarray:
    return backend.decode([PrefillChunk(REQUEST, sequence_id, start, PROMPT[start:end], wants_logits=True)]).copy()


def decode_row(sequence_id: SequenceId, step: int) -> Row:
    return DecodeRow(REQUEST, sequence_id, LENGTH + step, 200 + 31 * step)


def decoded(backend: Backend, sequence_id: SequenceId, num_steps: int = 2) -> list[bytes]:
    return [backend.decode([decode_row(sequence_id, step)]).tobytes() for step in range(num_steps)]


def own(backend: Backend) -> Said:
    """What a sequence says after its own prefill: at the cut's suffix, and while it decodes; leaves memory empty."""
    prefill(backend, FOURTH, 0, CUT)
    suffix = prefill(backend, FOURTH, CUT).tobytes()
    steps = decoded(backend, FOURTH)
    assert len({suffix, *steps}) == 1 + len(steps)
    assert backend.apply(DropSequence(FOURTH))
    return suffix, steps


@pytest.fixture(scope="module", params=CopyChoice)
def backend_of_module(request: pytest.FixtureRequest, model: LlamaModel) -> Iterator[LlamaCppBackend]:
    backend = LlamaCppBackend(model, replace(EXACT, copy=request.param), ROOM)
    yield backend
    backend.close()


@pytest.fixture
def exact(backend_of_module: LlamaCppBackend) -> Iterator[LlamaCppBackend]:
    """One backend for all tests of the bits; empty before each."""
    yield backend_of_module
    for sequence_id in range(EXACT.num_sequences):
        assert backend_of_module.apply(DropSequence(SequenceId(sequence_id)))
    assert backend_of_module.apply(ForgetSaved(KEY))


@pytest.fixture(scope="module")
def said(model: LlamaModel) -> Said:
    """See `own`."""
    backend = LlamaCppBackend(model, EXACT)
    try:
        return own(backend)
    finally:
        backend.close()


WAYS: dict[str, Sequence[KvOp]] = {
    "copied": [CopySequence(HERE, THERE, LENGTH)],
    "moved": [MoveSequence(HERE, THERE)],
    "moved on": [MoveSequence(HERE, OTHER), MoveSequence(OTHER, THERE)],
    "copied, and the source dropped": [CopySequence(HERE, THERE, LENGTH), DropSequence(HERE)],
    "saved and restored": [SAVE, DropSequence(HERE), RestoreSequence(THERE, KEY, LENGTH)],
    "saved and restored in its place": [SAVE, DropSequence(HERE), RestoreSequence(HERE, KEY, LENGTH)],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_whole_sequence_decodes_bit_for_bit(exact: LlamaCppBackend, said: Said, way: str) -> None:
    _, steps = said
    prefill(exact, HERE)
    assert all(exact.apply(op) for op in WAYS[way])
    where = HERE if way.endswith("its place") else THERE
    assert decoded(exact, where) == steps


PARTS: dict[str, Sequence[KvOp]] = {
    "trimmed": [TrimSequence(HERE, CUT), MoveSequence(HERE, THERE)],
    "copied": [CopySequence(HERE, THERE, CUT)],
    "copied to several": [CopySequence(HERE, OTHER, 70), CopySequence(HERE, THERE, CUT), CopySequence(HERE, THIRD, 9)],
    "a copy of a copy": [CopySequence(HERE, OTHER, CUT + 20), CopySequence(OTHER, THERE, CUT)],
    "restored": [SAVE, DropSequence(HERE), RestoreSequence(THERE, KEY, CUT)],
}


@pytest.mark.parametrize("way", PARTS)
def test_a_beginning_goes_on_bit_for_bit(exact: LlamaCppBackend, said: Said, way: str) -> None:
    suffix, steps = said
    prefill(exact, HERE)
    assert all(exact.apply(op) for op in PARTS[way])
    assert exact.positions(THERE) == (0, CUT - 1)
    assert prefill(exact, THERE, CUT).tobytes() == suffix
    assert decoded(exact, THERE) == steps


def test_a_source_that_goes_on_is_not_disturbed(exact: LlamaCppBackend, said: Said) -> None:
    _, steps = said
    prefill(exact, HERE)
    first = exact.decode([decode_row(HERE, 0)]).tobytes()
    assert exact.apply(CopySequence(HERE, THERE, CUT))
    second = exact.decode([decode_row(HERE, 1)]).tobytes()
    assert [first, second] == steps


def test_a_source_that_is_overwritten_in_the_same_step_keeps_the_copy_right(exact: LlamaCppBackend, said: Said) -> None:
    suffix, _ = said
    prefill(exact, HERE)
    assert exact.apply(CopySequence(HERE, THERE, CUT))
    assert exact.apply(DropSequence(HERE))
    other = Request(request_id=RequestId(2), prompt=PROMPT[::-1], max_tokens=1, arrival_at=0)
    exact.decode([PrefillChunk(other, HERE, 0, other.prompt, wants_logits=False)])
    assert prefill(exact, THERE, CUT).tobytes() == suffix


def test_a_restore_never_meets_a_copy_under_way(model: LlamaModel, said: Said) -> None:
    backend = LlamaCppBackend(model, replace(EXACT, copy=CopyChoice.STREAM), ROOM)
    try:
        suffix, _ = said
        prefill(backend, HERE)
        assert backend.apply(SAVE)
        assert backend.apply(CopySequence(HERE, THERE, CUT))
        assert backend.apply(DropSequence(HERE))
        assert not backend.apply(RestoreSequence(HERE, KEY, CUT)), "the copy has not been made yet"
        assert not backend.apply(SaveSequence(THERE, SavedKey(2), CUT)), "same"
        assert backend.positions(HERE) is None
        assert prefill(backend, THERE, CUT).tobytes() == suffix
        assert backend.apply(RestoreSequence(HERE, KEY, CUT))
        assert prefill(backend, HERE, CUT).tobytes() == suffix
    finally:
        backend.close()


def test_in_one_pool_everything_goes_on_alike(model: LlamaModel) -> None:
    backend = LlamaCppBackend(model, UNIFIED, ROOM)
    try:
        prefill(backend, FOURTH, 0, CUT)
        suffix = prefill(backend, FOURTH, CUT)
        prefill(backend, HERE)
        ops: list[KvOp] = [CopySequence(HERE, THERE, CUT), SAVE, MoveSequence(HERE, OTHER), TrimSequence(OTHER, CUT)]
        assert all(backend.apply(op) for op in [*ops, RestoreSequence(HERE, KEY, CUT)])
        for sequence_id in (HERE, THERE, OTHER):
            again = prefill(backend, sequence_id, CUT)
            assert again.argmax() == suffix.argmax()
            # the neighbours change the last bits here, and some rounding follows from that
            assert np.corrcoef(again[0], suffix[0])[0, 1] > 0.998
    finally:
        backend.close()


@pytest.mark.parametrize("options", [EXACT, UNIFIED], ids=["separate", "unified"])
def test_a_context_that_was_tried_is_as_new(model: LlamaModel, options: ContextOptions) -> None:
    backend = LlamaCppBackend(model, options, ROOM)
    try:
        can = backend.reuse_support
        assert (can.trim, can.copy, can.save, can.reason) == (True, True, True, "")
        # 30 layers, 3 heads of 64 numbers, keys and values of 2 bytes, and a line for each cell
        assert can.bytes_per_token == 30 * 3 * 64 * 2 * 2 + 12
        assert all(backend.positions(SequenceId(each)) is None for each in range(5))
        first = prefill(backend, HERE).tobytes()
        assert backend.apply(DropSequence(HERE))
        assert prefill(backend, HERE).tobytes() == first
    finally:
        backend.close()


def test_without_a_store_nothing_is_saved(make_backend: MakeBackend) -> None:
    backend = make_backend()
    assert backend.reuse_support.trim
    assert not backend.reuse_support.save
    assert backend.saved_runs() == ()


def test_a_full_pool_refuses_to_restore_and_leaves_the_target_empty(model: LlamaModel) -> None:
    backend = LlamaCppBackend(model, replace(UNIFIED, ctx_size=256), ROOM)
    try:
        prefill(backend, HERE)
        assert backend.apply(SAVE)
        for other in (OTHER, THIRD):
            prefill(backend, other)
        assert not backend.apply(RestoreSequence(THERE, KEY, CUT))
        assert backend.positions(THERE) is None
        assert backend.positions(HERE) == (0, LENGTH - 1)
    finally:
        backend.close()


# ── a directory ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(model: LlamaModel, tmp_path: Path) -> Path:
    """A directory with a saved run, made by a backend that is gone."""
    backend = LlamaCppBackend(model, EXACT, replace(ROOM, directory=tmp_path / "cache"))
    try:
        prefill(backend, HERE)
        assert backend.apply(SAVE)
    finally:
        backend.close()
    return tmp_path / "cache"


@pytest.mark.parametrize("num_sequences", [5, 2, 1, 7])
def test_c12_a_saved_run_survives_a_restart_and_another_number_of_sequences(
    model: LlamaModel, said: Said, folder: Path, num_sequences: int
) -> None:
    options = replace(EXACT, num_sequences=num_sequences, ctx_size=256 * num_sequences)
    backend = LlamaCppBackend(model, options, replace(ROOM, directory=folder))
    try:
        assert backend.saved_runs() == (SavedRun(KEY, "scope", PROMPT),)
        last = SequenceId(num_sequences - 1)
        assert backend.apply(RestoreSequence(last, KEY, CUT))
        assert prefill(backend, last, CUT).tobytes() == said[0]
        assert backend.store is not None
        assert backend.store.counts.loaded_from_disk == 1
    finally:
        backend.close()


REFUSED: dict[str, tuple[ContextOptions, bool, str]] = {
    "KV type": (replace(EXACT, kv_type=KvType.F32), False, "KV type: f16 there, f32 here"),
    "layout": (UNIFIED, False, "KV layout: separate there, unified here"),
    "attention": (replace(EXACT, flash_attention=FlashAttention.ON), False, "order of values: transposed"),
    "mode": (EXACT, True, "mode: fast there, exact here"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_c12_another_kv_memory_is_refused_by_name_and_changes_nothing(
    model: LlamaModel, folder: Path, what: str
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    options, is_exact, message = REFUSED[what]
    with pytest.raises(ConfigError, match=message) as refused:
        LlamaCppBackend(model, options, replace(ROOM, directory=folder, exact=is_exact))
    assert "\n" not in str(refused.value)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_c12_another_model_is_refused_by_name(folder: Path, model_path: Path, tmp_path: Path) -> None:
    other = LlamaModel(quantize(model_path, tmp_path / "other.gguf", WeightFormat.Q4_0))
    try:
        with pytest.raises(ConfigError, match=r"weights: .*Q4_1.* there, .*Q4_0.* here"):
            LlamaCppBackend(other, EXACT, replace(ROOM, directory=folder))
    finally:
        other.close()


@pytest.mark.parametrize("harm", [damage_file, lambda path: truncate_file(path, 100)], ids=["damaged", "truncated"])
def test_c12_a_harmed_file_is_told_and_the_prompt_can_be_computed(
    model: LlamaModel, said: Said, folder: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None]
) -> None:
    harm(next(folder.glob("*.kv")))
    with caplog.at_level(logging.WARNING, "arriero.host_store"):
        backend = LlamaCppBackend(model, EXACT, replace(ROOM, directory=folder))
        try:
            restored = [backend.apply(RestoreSequence(HERE, run.key, CUT)) for run in backend.saved_runs()]
            assert not any(restored)
            assert backend.positions(HERE) is None
            prefill(backend, HERE, 0, CUT)
            assert prefill(backend, HERE, CUT).tobytes() == said[0]
        finally:
            backend.close()
    assert len([each for each in caplog.records if "is ignored" in each.getMessage()]) == 1


@pytest.mark.parametrize("kv_type", KvType)
def test_kv_of_every_type_is_copied_and_saved(model: LlamaModel, kv_type: KvType) -> None:
    options = replace(EXACT, kv_type=kv_type, flash_attention=FlashAttention.ON)
    backend = LlamaCppBackend(model, options, ROOM)
    try:
        prefill(backend, HERE)
        ops: list[KvOp] = [SAVE, CopySequence(HERE, THERE, LENGTH), RestoreSequence(OTHER, KEY, LENGTH)]
        assert all(backend.apply(op) for op in ops)
        steps = [decoded(backend, each) for each in (HERE, THERE, OTHER)]
        assert steps[0] == steps[1] == steps[2]
    finally:
        backend.close()
