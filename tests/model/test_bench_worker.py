"""The bench worker on the real library, and a model's first layers."""

import hashlib
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from arriero.backend.bench_context import BenchContext, BenchOptions
from arriero.backend.llama_model import LlamaModel
from arriero.core.choices import FlashAttention
from arriero.core.errors import ConfigError
from arriero.lab.bench_worker import Depth, measure
from arriero.lab.matrix.executors import Settings
from arriero.lab.matrix.in_process import InProcess
from arriero.lab.process import run_process
from arriero.lab.worker_process import decode_result, worker_command
from arriero.record.cpu_lab.matrix import MatrixCase
from arriero.record.cpu_lab.worker import KvCacheType, WorkerOptions

pytestmark = pytest.mark.model


def options(path: Path, **more: object) -> WorkerOptions:
    small = WorkerOptions(
        model=str(path), threads=1, prompt_tokens=32, generated_tokens=4, depth=64, batch=32, micro_batch=32
    )
    return msgspec.structs.replace(small, **more)


def test_a_worker_answers_one_line_about_the_case_that_it_was_asked(llama_process: None, short_path: Path) -> None:
    del llama_process
    done = run_process(worker_command(options(short_path, greedy_tokens=3)), timeout_s=60)
    assert done.return_code == 0, done.stderr
    result = decode_result(done.stdout)
    assert result.text is not None
    assert result.text_sha256 == hashlib.sha256(result.text.encode()).hexdigest()
    assert len(result.text_tokens) == 3
    assert result.model.name == short_path.name
    assert any(name.startswith("libggml-cpu") for name in result.library)
    assert result.peak_rss_kib is not None
    assert result.peak_rss_kib > 30_000
    case = MatrixCase(threads=1, prompt_tokens=32, generated_tokens=4, batch_size=32, context_size=100, ubatch_size=32)
    executor = InProcess(settings=Settings(mmap=True, cpu_only=True, flash_attention="auto"), library=result.library)
    (found,) = executor.read(done, case).results
    assert found.test_identifier == "pp32 @ d64; tg4 @ d64"


def test_kv_memory_is_what_the_library_prints_and_grows_with_the_type(llama_process: None, short_path: Path) -> None:
    del llama_process
    sizes = {
        kind: measure(options(short_path, kv_key=kind, kv_value=kind, flash_attention=FlashAttention.ON)).kv_cache_bytes
        for kind in (KvCacheType.Q4_0, KvCacheType.Q8_0, KvCacheType.F16, KvCacheType.F32)
    }
    found = [size for size in sizes.values() if size is not None]
    assert len(found) == 4
    assert found == sorted(set(found))


def test_repetitions_are_timed_one_by_one_and_what_is_not_asked_for_is_null(
    llama_process: None, short_path: Path
) -> None:
    del llama_process
    result = measure(options(short_path, repetitions=3, generated_tokens=0, warmups=0, depth=0))
    assert len(result.prompt_ns) == 3
    assert result.generation_ns == ()
    assert result.generated_tokens_per_s is None
    assert result.prompt_tokens_per_s == pytest.approx(sum(32e9 / ns for ns in result.prompt_ns) / 3)


def test_a_restored_depth_is_the_same_memory_as_a_computed_one(llama_process: None, short_path: Path) -> None:
    del llama_process
    model = LlamaModel(short_path)
    small = BenchOptions(num_cells=64, batch=32, micro_batch=32, threads=1, batch_threads=1)
    context, larger = BenchContext(model, small), BenchContext(model, replace(small, num_cells=512))
    try:
        first = context.greedy([1, 2, 3, 4], 4, frozenset())
        context.clear()
        context.greedy([1, 2, 3], 1, frozenset())
        state = context.save()
        assert larger.restore(state)
        assert larger.greedy([4], 4, frozenset()) == first
    finally:
        context.close()
        larger.close()
        model.close()


def test_kv_types_that_cannot_be_are_one_line(llama_process: None, short_path: Path) -> None:
    del llama_process
    model = LlamaModel(short_path, mmap=False)
    bad = BenchOptions(
        num_cells=64,
        batch=32,
        micro_batch=32,
        threads=1,
        batch_threads=1,
        kv_value="q4_0",
        flash_attention=FlashAttention.OFF,
    )
    try:
        with pytest.raises(ConfigError, match="flash attention"):
            BenchContext(model, bad)
    finally:
        model.close()


def test_a_worker_that_cannot_work_ends_with_one_line(tmp_path: Path) -> None:
    done = run_process(worker_command(options(tmp_path / "none.gguf")), timeout_s=60)
    assert (done.return_code, done.stdout) == (2, "")
    assert "no such file" in done.stderr
    assert done.stderr.count("\n") == 1


def test_answers_abreast_are_timed_together_behind_the_same_depth(llama_process: None, short_path: Path) -> None:
    del llama_process
    found = measure(options(short_path, prompt_tokens=0, sequences=3, repetitions=2))
    assert found.generated_tokens_per_s == pytest.approx(sum(12e9 / ns for ns in found.generation_ns) / 2)
    alone = measure(options(short_path, prompt_tokens=0))
    assert alone.kv_cache_bytes is not None
    assert found.kv_cache_bytes is not None
    assert _depths(short_path) == [19, 19, 19]
    assert found.kv_cache_bytes == pytest.approx(3 * alone.kv_cache_bytes, rel=0.02)  # told to 0.01 MiB


def _depths(path: Path) -> list[int]:
    """The last positions of three sequences, each behind a depth of 20."""
    model = LlamaModel(path)
    context = BenchContext(
        model, BenchOptions(num_cells=768, batch=32, micro_batch=32, threads=1, batch_threads=1, sequences=3)
    )
    try:
        Depth(np.arange(100, 120, dtype=np.int32)).reach(context)
        last = model.library.short("llama_memory_seq_pos_max")
        return [last(context._memory, sequence) for sequence in range(3)]
    finally:
        context.close()
        model.close()
