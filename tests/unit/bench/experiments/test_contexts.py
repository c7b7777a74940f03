"""One source, many contexts; and a clock that only computing moves."""

import hashlib
import threading
from pathlib import Path

import pytest

from arriero.bench.experiments.contexts import (
    ContextShape,
    ModelSettings,
    VirtualClock,
    file_sha256,
    open_model,
    story_tokens,
)
from arriero.core.errors import ModelUnreadable
from arriero.core.ids import RequestId, SequenceId
from arriero.core.plan import PrefillChunk
from arriero.core.request import Request

SYNTHETIC = ModelSettings(backend="synthetic", call_s=0.004, row_s=0.0005, virtual_time=True)


def test_virtual_time_passes_by_calls_and_rows_only() -> None:
    with open_model(SYNTHETIC) as source:
        backend = source.make(ContextShape(num_sequences=2, positions=10))
        assert source.clock() == 0
        request = Request(request_id=RequestId(0), prompt=(1, 2, 3), max_tokens=1, arrival_at=0)
        backend.decode([PrefillChunk(request, SequenceId(0), 0, (1, 2, 3), wants_logits=True)])
        assert source.clock() == 4000 + 3 * 500
        backend.close()


def test_a_pause_says_whether_it_was_told_to_stop() -> None:
    clock, stop = VirtualClock(), threading.Event()
    assert clock.pause(stop, 0.25) is False
    stop.set()
    assert clock.pause(stop, 0.25) is True
    assert clock() == 500_000


def test_cells_are_rounded_up_as_llama_cpp_rounds_them() -> None:
    with open_model(ModelSettings(backend="synthetic")) as source:
        shape = ContextShape(num_sequences=3, positions=257)
        assert shape.cells == 3 * 512
        limits = source.make(shape).limits
        assert (limits.num_cells, limits.sequence_limit, limits.num_sequences) == (3 * 512, 512, 3)
        assert source.cell_bytes is None
        assert source.facts()["backend"] == "synthetic"


def test_a_story_has_any_length_and_another_start_another_content() -> None:
    with open_model(ModelSettings(backend="synthetic")) as source:
        assert len(story_tokens(source.vocabulary, 1000)) == 1000
        assert story_tokens(source.vocabulary, 9, start=1)[:-1] == story_tokens(source.vocabulary, 9)[1:]


def test_the_hash_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"mule" * 700_000)
    assert file_sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_model_that_is_not_there_is_told() -> None:
    with pytest.raises(ModelUnreadable), open_model(ModelSettings(reference="nowhere.gguf")):
        pytest.fail("there is no such file")
