"""LlamaBench: the program measures, one process for each repetition, arguments never through a shell."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from arriero.core.choices import FlashAttention
from arriero.core.errors import ConfigError
from arriero.lab.file_hash import file_sha256
from arriero.lab.matrix.bench_output import check_result, parse_llama_bench
from arriero.lab.matrix.executors import Reading, Settings
from arriero.lab.process import Finished, run_process
from arriero.metrics.kv_buffers import kv_bytes_of
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase

HELP_TIMEOUT_S: Final = 30.0
_LIBRARIES: Final = ("libllama*.so*", "libggml*.so*", "libmtmd*.so*", "libllama*.dylib", "libggml*.dylib")


class Dialect(NamedTuple):
    """What differs between versions of the program.

    Attributes:
        load_mode: it takes `-lm mmap|none`; older ones take `-mmp 0|1`.
        attention_words: it takes `-fa on|off|auto`; older ones take `-fa 0|1`.
        devices: it takes `-dev none`.
    """

    load_mode: bool
    attention_words: bool
    devices: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaBench:
    """An `Executor`; made by `find_llama_bench`.

    Attributes:
        program: its path.
        settings: of the matrix.
        dialect: of its version.
        library: base name -> SHA-256 of the program and of llama.cpp's libraries beside it.
    """

    program: Path
    settings: Settings
    dialect: Dialect
    library: Mapping[str, str]

    @property
    def kind(self) -> ExecutorKind:
        """Which one it is."""
        return ExecutorKind.LLAMA_BENCH

    def command(self, model: str, case: MatrixCase) -> tuple[str, ...]:
        """The words for one repetition."""
        words = {
            "-m": model,
            "-t": case.threads,
            "-p": case.prompt_tokens,
            "-n": case.generated_tokens,
            "-b": case.batch_size,
            "-ub": case.ubatch_size,
            "-d": case.depth,
            "-r": 1,
            "-o": "md",
            **self._loading(),
            "-ctk": case.kv_key_type,
            "-ctv": case.kv_value_type,
            **self._offloading(),
            **self._attention(),
        }
        return (str(self.program), *(str(word) for pair in words.items() for word in pair))

    def run(self, command: tuple[str, ...], timeout_s: float) -> Finished:
        """Run it."""
        return run_process(command, timeout_s=timeout_s)

    def read(self, finished: Finished, case: MatrixCase) -> Reading:
        """Understand its table.

        Raises:
            DataError: it is not understood, or is not about this case.
        """
        results = parse_llama_bench(finished.stdout)
        check_result(results, case)
        kv_bytes = kv_bytes_of(finished.stderr.splitlines() + finished.stdout.splitlines())
        reasons = {} if kv_bytes is not None else {"reported_kv_cache_bytes": "llama-bench printed no KV buffer size"}
        return Reading(results=results, kv_cache_bytes=kv_bytes, reasons=reasons)

    def _loading(self) -> dict[str, str]:
        if self.dialect.load_mode:
            return {"-lm": "mmap" if self.settings.mmap else "none"}
        return {"-mmp": "1" if self.settings.mmap else "0"}

    def _offloading(self) -> dict[str, str]:
        if not self.settings.cpu_only:
            return {}
        return {"-ngl": "0", **({"-dev": "none"} if self.dialect.devices else {})}

    def _attention(self) -> dict[str, str]:
        wanted = FlashAttention(self.settings.flash_attention)
        if wanted is FlashAttention.AUTO:  # the program's own default
            return {}
        return {"-fa": str(wanted) if self.dialect.attention_words else str(int(wanted is FlashAttention.ON))}


def find_llama_bench(place: str | Path, settings: Settings) -> LlamaBench:
    """The program, asked for its flags and hashed.

    Args:
        place: a path, or a name that is looked for in `PATH`.
        settings: of the matrix.

    Raises:
        ConfigError: there is none, or it does not answer `--help` as llama-bench does.
    """
    found = shutil.which(place)
    if found is None:
        raise ConfigError(
            f"{place}: no program that can be run; build llama-bench (docs/lab/building.md), name it with "
            "--llama-bench, or use --executor in-process"
        )
    program = Path(found).absolute()
    told = run_process((str(program), "--help"), timeout_s=HELP_TIMEOUT_S)
    text = told.stdout + told.stderr
    if "--n-depth" not in text or "--cache-type-k" not in text:
        raise ConfigError(f"{program.name}: --help names no --n-depth; take a llama-bench of 2025 or later")
    dialect = Dialect(
        load_mode="--load-mode" in text, attention_words="on|off" in text, devices="--device" in text or "-dev," in text
    )
    return LlamaBench(program=program, settings=settings, dialect=dialect, library=program_hashes(program))


def program_hashes(program: Path) -> dict[str, str]:
    """Base name -> SHA-256 of a program and of llama.cpp's libraries in its folder, each real file once.

    Raises:
        ConfigError: one of them cannot be read.
    """
    folder = program.resolve().parent
    paths = {path.resolve() for pattern in _LIBRARIES for path in folder.glob(pattern) if path.is_file()}
    return {path.name: file_sha256(path) for path in (program.resolve(), *sorted(paths))}
