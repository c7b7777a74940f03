"""InProcess: the binding measures, in a worker process of its own for each repetition.

A process for each, as llama-bench has it: one that crashes or hangs is one record, none inherits another's memory, and
loading the model is in the same place of the elapsed time.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from arriero.core.choices import FlashAttention
from arriero.core.errors import DataError
from arriero.lab.matrix.bench_output import check_result, named_test, shown_size
from arriero.lab.matrix.executors import Reading, Settings
from arriero.lab.process import Finished, run_process
from arriero.lab.worker_process import decode_result, worker_command
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase, MemorySource, ParsedResult
from arriero.record.cpu_lab.worker import WorkerOptions, WorkerResult

BACKEND: Final = "CPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess:
    """An `Executor`.

    Attributes:
        settings: of the matrix.
        library: base name -> SHA-256 of the llama.cpp that workers will load.
        python: the interpreter that they run on.
    """

    settings: Settings
    library: Mapping[str, str]
    python: str = sys.executable

    @property
    def kind(self) -> ExecutorKind:
        """Which one it is."""
        return ExecutorKind.IN_PROCESS

    def command(self, model: str, case: MatrixCase) -> tuple[str, ...]:
        """A worker that measures once."""
        return worker_command(self._options(model, case), self.python)

    def run(self, command: tuple[str, ...], timeout_s: float) -> Finished:
        """Run a worker."""
        return run_process(command, timeout_s=timeout_s)

    def read(self, finished: Finished, case: MatrixCase) -> Reading:
        """Decode the worker's line.

        Raises:
            DataError: it is no such line, or another llama.cpp was loaded than was hashed before.
        """
        result = decode_result(finished.stdout)
        if self.library and result.library != dict(self.library):
            raise DataError("the worker loaded other libraries than this run began with; begin another run")
        check_result(parsed := (parsed_result(result, case),), case)
        return Reading(
            results=parsed,
            peak_rss_kib=result.peak_rss_kib,
            memory_source=MemorySource.NONE if result.peak_rss_kib is None else MemorySource.WORKER,
            kv_cache_bytes=result.kv_cache_bytes,
            library=result.library,
            reasons={
                {"kv_cache_bytes": "reported_kv_cache_bytes"}.get(name, name): why
                for name, why in result.reasons.items()
            },
        )

    def _options(self, model: str, case: MatrixCase) -> WorkerOptions:
        return WorkerOptions(
            model=model,
            threads=case.threads,
            prompt_tokens=case.prompt_tokens,
            generated_tokens=case.generated_tokens,
            depth=case.depth,
            batch=case.batch_size,
            micro_batch=case.ubatch_size,
            kv_key=case.kv_key_type,
            kv_value=case.kv_value_type,
            flash_attention=FlashAttention(self.settings.flash_attention),
            mmap=self.settings.mmap,
        )


def parsed_result(result: WorkerResult, case: MatrixCase) -> ParsedResult:
    """A worker's result in the words of llama-bench."""
    has_prompt, has_answer = bool(result.prompt_ns), bool(result.generation_ns)
    phases = (("pp", case.prompt_tokens, has_prompt), ("tg", case.generated_tokens, has_answer))
    tests = [named_test(phase, tokens, case.depth) for phase, tokens, is_there in phases if is_there]
    return ParsedResult(
        model_name=result.model.description,
        model_size=shown_size(result.model.weight_bytes),
        backend=BACKEND,
        thread_count=case.threads,
        prompt_tokens=case.prompt_tokens if has_prompt else None,
        generated_tokens=case.generated_tokens if has_answer else None,
        depth=case.depth,
        prompt_tokens_per_second=result.prompt_tokens_per_s,
        generation_tokens_per_second=result.generated_tokens_per_s,
        test_identifier="; ".join(tests),
    )
