"""Who measures: the words that are started, and what is made of the answers."""

import shlex
from pathlib import Path

import msgspec
import pytest

from arriero.core.choices import FlashAttention
from arriero.core.errors import ConfigError, DataError
from arriero.lab.matrix.executors import Executor, Settings
from arriero.lab.matrix.in_process import InProcess
from arriero.lab.matrix.llama_bench import Dialect, LlamaBench, find_llama_bench, program_hashes
from arriero.lab.matrix.smoke import read_fixture
from arriero.lab.process import Finished
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase, MemorySource
from arriero.record.cpu_lab.worker import KvCacheType, WorkerModel, WorkerOptions, WorkerResult
from arriero.testing.fake_bench import write_fake_bench
from tests.unit.lab.matrix.matrices import SETTINGS

CASE = MatrixCase(
    threads=2,
    prompt_tokens=128,
    generated_tokens=64,
    batch_size=256,
    context_size=1024,
    ubatch_size=128,
    kv_key_type=KvCacheType.Q8_0,
    kv_value_type=KvCacheType.Q4_0,
)
NEW = Dialect(load_mode=True, attention_words=True, devices=True)
OLD = Dialect(load_mode=False, attention_words=False, devices=False)


def bench(settings: Settings = SETTINGS, dialect: Dialect = NEW) -> LlamaBench:
    return LlamaBench(program=Path("/opt/llama-bench"), settings=settings, dialect=dialect, library={})


def finished(stdout: str, stderr: str = "") -> Finished:
    return Finished(
        command=("x",),
        return_code=0,
        stdout=stdout,
        stderr=stderr,
        elapsed_s=1.0,
        timed_out=False,
        interrupted=False,
        peak_rss_kib=None,
        launch_error=None,
        usage=None,
    )


def worker_result(**more: object) -> WorkerResult:
    result = WorkerResult(
        prompt_tokens_per_s=412.5,
        generated_tokens_per_s=98.5,
        prompt_ns=(310_303_030,),
        generation_ns=(649_746_192,),
        kv_cache_bytes=1 << 20,
        peak_rss_kib=200_000,
        model=WorkerModel(
            name="m.gguf",
            file_bytes=1,
            description="llama 134M Q4_1",
            weight_format="Q4_1",
            num_parameters=1,
            weight_bytes=98_292_736,
        ),
        library={"libllama.so": "ab"},
        system_info="",
        text=None,
        text_sha256=None,
        text_tokens=(),
        reasons={},
    )
    return msgspec.structs.replace(result, **more)


def test_llama_bench_gets_the_arguments_of_the_case_and_no_shell() -> None:
    words = bench().command("/models/a b.gguf", CASE)
    assert words == (
        "/opt/llama-bench", "-m", "/models/a b.gguf", "-t", "2", "-p", "128", "-n", "64", "-b", "256", "-ub", "128",
        "-d", "832", "-r", "1", "-o", "md", "-lm", "mmap", "-ctk", "q8_0", "-ctv", "q4_0", "-ngl", "0", "-dev", "none",
    )  # fmt: skip


def test_older_programs_get_their_own_words() -> None:
    settings = Settings(mmap=False, cpu_only=True, flash_attention=FlashAttention.ON)
    words = shlex.join(bench(settings, OLD).command("m", CASE))
    assert "-mmp 0" in words
    assert "-fa 1" in words
    assert "-dev" not in words
    new = shlex.join(bench(settings._replace(cpu_only=False), NEW).command("m", CASE))
    assert "-lm none" in new
    assert "-fa on" in new
    assert "-ngl" not in new


def test_the_worker_gets_the_same_key() -> None:
    *_, text = InProcess(settings=SETTINGS, library={}, python="python").command("m.gguf", CASE)
    options = msgspec.json.decode(text, type=WorkerOptions)
    assert options == WorkerOptions(
        model="m.gguf",
        threads=2,
        prompt_tokens=128,
        generated_tokens=64,
        depth=832,
        batch=256,
        micro_batch=128,
        kv_key=KvCacheType.Q8_0,
        kv_value=KvCacheType.Q4_0,
    )


def test_both_say_the_same_of_one_key() -> None:
    table = (
        "| model | size | backend | threads | test | t/s |\n| - | - | - | - | - | - |\n"
        "| llama 134M Q4_1 | 93.74 MiB | CPU | 2 | pp128 @ d832 | 412.50 ± 0.00 |\n"
        "| llama 134M Q4_1 | 93.74 MiB | CPU | 2 | tg64 @ d832 | 98.50 ± 0.00 |\n"
    )
    line = msgspec.json.encode(worker_result()).decode() + "\n"
    by_worker = InProcess(settings=SETTINGS, library={"libllama.so": "ab"}).read(finished(line), CASE)
    by_program = bench().read(finished(table), CASE)
    assert by_worker.results == by_program.results
    assert (by_worker.kv_cache_bytes, by_worker.memory_source) == (1 << 20, MemorySource.WORKER)
    assert by_program.kv_cache_bytes is None
    assert "reported_kv_cache_bytes" in by_program.reasons


def test_kv_buffers_that_the_program_prints_are_summed() -> None:
    table = "| model | size | backend | threads | test | t/s |\n" + "".join(
        f"| m | s | CPU | 2 | {test} @ d832 | 1.0 ± 0 |\n" for test in ("pp128", "tg64")
    )
    log = "llama_kv_cache: CPU KV buffer size = 1.00 MiB\nllama_kv_cache: CPU KV buffer size = 2.00 MiB\n"
    assert bench().read(finished(table, log), CASE).kv_cache_bytes == 3 << 20


@pytest.mark.parametrize("stdout", ["", "{}\n", "x\n", "{}\n{}\n"])
def test_a_line_that_is_no_workers_is_an_error(stdout: str) -> None:
    with pytest.raises(DataError, match="worker"):
        InProcess(settings=SETTINGS, library={}).read(finished(stdout), CASE)


def test_a_worker_on_another_build_than_the_run_began_with_is_an_error() -> None:
    line = msgspec.json.encode(worker_result()).decode()
    with pytest.raises(DataError, match="other libraries"):
        InProcess(settings=SETTINGS, library={"libllama.so": "cd"}).read(finished(line), CASE)


def test_a_program_is_found_asked_and_hashed_with_its_libraries(tmp_path: Path) -> None:
    program = write_fake_bench(tmp_path)
    (tmp_path / "libllama.so.0.1").write_bytes(b"lib")
    (tmp_path / "libllama.so").symlink_to("libllama.so.0.1")
    found = find_llama_bench(program, SETTINGS)
    assert found.dialect == NEW
    assert sorted(found.library) == ["libllama.so.0.1", "llama-bench"]
    before = program_hashes(program)
    (tmp_path / "libllama.so.0.1").write_bytes(b"another")
    assert program_hashes(program) != before, "another build is another program"


def test_what_is_no_llama_bench_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no program"):
        find_llama_bench(tmp_path / "none", SETTINGS)
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho hello\n", encoding="utf-8")
    other.chmod(0o755)
    with pytest.raises(ConfigError, match="--n-depth"):
        find_llama_bench(other, SETTINGS)


def test_a_captured_output_stands_for_every_case(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    path.write_text(
        "| model | size | backend | threads | test | t/s |\n| m | s | CPU | 9 | pp1 | 1.0 ± 0 |\n", encoding="utf-8"
    )
    smoke: Executor = read_fixture(path)
    done = smoke.run(smoke.command("m", CASE), 1.0)
    assert smoke.read(done, CASE).results[0].thread_count == 9
    assert smoke.kind is ExecutorKind.SMOKE
    with pytest.raises(ConfigError, match="smoke_fixture"):
        read_fixture(tmp_path / "none")
