"""MatrixConfig: a matrix as a person writes it, in YAML with closed keys; every complaint names its line."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import msgspec
from msgspec import Meta

from arriero.core.choices import FlashAttention
from arriero.core.errors import DataError
from arriero.lab.worker_process import LARGEST_SIZE
from arriero.record.bench_parts import BenchPart
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase
from arriero.record.cpu_lab.worker import KvCacheType
from arriero.record.cpu_lab.yaml_lines import YamlFile, YamlPath, read_yaml
from arriero.record.strict import Count, Name, Positive, Sha256, refusal

Size: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_SIZE)]
Sizes: TypeAlias = Annotated[tuple[Size, ...], Meta(min_length=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
LogicalId: TypeAlias = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z")]

SIZE_KEYS: Final = ("threads", "prompt_tokens", "generated_tokens", "batch_sizes", "context_sizes")
_PART: Final = re.compile(r"(?P<name>[^.\[\]]+)|\[(?P<place>\d+)\]")


class ModelEntry(BenchPart, frozen=True, kw_only=True):
    """One model file.

    Attributes:
        id: the name in tables; no two are equal.
        path: of a GGUF file, relative to the configuration's folder; or `smollm2-135m`, or `hf:ORG/REPO/FILE`.
        quantization: the format that its author states.
        sha256: that the file must have.
        byte_size: same.
    """

    id: LogicalId
    path: Name
    quantization: Name
    sha256: Sha256 | None = None
    byte_size: Positive | None = None


class ExplicitCase(BenchPart, frozen=True, kw_only=True):
    """One case of a list that replaces the product."""

    threads: Size
    prompt_tokens: Size
    generated_tokens: Size
    batch_size: Size
    context_size: Size
    ubatch_size: Size


class KvVariant(BenchPart, frozen=True, kw_only=True):
    """Types of keys and values."""

    key: KvCacheType
    value: KvCacheType


class MatrixConfig(BenchPart, frozen=True, kw_only=True):
    """A matrix.

    Attributes:
        output_directory: where the run goes; relative paths count from the configuration's folder, as all here.
        repetitions: measured invocations of each case.
        warmup_runs: invocations before them that count for nothing.
        timeout_seconds: of one invocation.
        executable: llama-bench; without it, and without a fixture, the binding measures in a worker process.
        model: path of one model file.
        models: several, with names.
        threads: to vary, as all lists; with `explicit_cases` the lists may be left out.
        prompt_tokens: same.
        generated_tokens: same.
        batch_sizes: same.
        context_sizes: same.
        ubatch_sizes: same.
        mmap: map model files.
        cpu_only: offload nothing.
        flash_attention: fused attention; `auto` lets llama.cpp decide.
        explicit_cases: replace the product of the lists.
        kv_cache_variants: each case is run with each.
        measure_memory: wrap each invocation in GNU time.
        time_executable: that program.
        smoke_fixture: a captured output that is parsed instead of running anything.
    """

    output_directory: Name
    repetitions: Positive
    warmup_runs: Count
    timeout_seconds: Seconds
    executable: Name | None = None
    model: Name | None = None
    models: Annotated[tuple[ModelEntry, ...], Meta(min_length=1)] | None = None
    threads: Sizes | None = None
    prompt_tokens: Sizes | None = None
    generated_tokens: Sizes | None = None
    batch_sizes: Sizes | None = None
    context_sizes: Sizes | None = None
    ubatch_sizes: Sizes = (512,)
    mmap: bool = True
    cpu_only: bool = True
    flash_attention: FlashAttention = FlashAttention.AUTO
    explicit_cases: Annotated[tuple[ExplicitCase, ...], Meta(min_length=1)] | None = None
    kv_cache_variants: Annotated[tuple[KvVariant, ...], Meta(min_length=1)] = (
        KvVariant(key=KvCacheType.F16, value=KvCacheType.F16),
    )
    measure_memory: bool = False
    time_executable: Name = "/usr/bin/time"
    smoke_fixture: Name | None = None

    @property
    def executor(self) -> ExecutorKind:
        """Who measures, unless a flag says otherwise."""
        if self.smoke_fixture is not None:
            return ExecutorKind.SMOKE
        return ExecutorKind.LLAMA_BENCH if self.executable is not None else ExecutorKind.IN_PROCESS


class ReadConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration and where it stands.

    Attributes:
        config: its values.
        path: of the file.
        source: lines of its keys.
    """

    config: MatrixConfig
    path: Path
    source: YamlFile

    def resolve(self, word: str) -> Path:
        """A path of the configuration: relative ones count from its folder."""
        place = Path(word).expanduser() if word.startswith("~/") else Path(word)
        return Path(os.path.normpath(self.path.parent / place))

    def refuse(self, where: YamlPath, what: str) -> NoReturn:
        """Complain about a value.

        Raises:
            DataError: always; names the line and the field.
        """
        raise _complaint(self.path, self.source, where, what)


def read_config(path: Path) -> ReadConfig:
    """Read and check a configuration; opens no other file.

    Raises:
        DataError: names line, field and remedy.
    """
    source = read_yaml(path)
    value: object = source.value
    if not isinstance(value, dict):
        raise DataError("line 1: holds no table; write lines such as `repetitions: 5`", file=str(path), line=1)
    try:
        config = msgspec.convert(value, MatrixConfig)
    except msgspec.ValidationError as error:
        raise _with_line(str(error), path, source) from None
    except (OverflowError, RecursionError):
        raise DataError("a number is too large or the nesting too deep", file=str(path)) from None
    read = ReadConfig(config=config, path=path, source=source)
    _check_models(read)
    _check_cases(read)
    _check_variants(read)
    return read


def _check_models(read: ReadConfig) -> None:
    config = read.config
    if (config.model is None) == (config.models is None):
        is_twice = config.model is not None
        what = "model and models exclude each other; keep one" if is_twice else "missing; give model or models"
        read.refuse(("models",) if is_twice else ("model",), what)
    seen: dict[str, int] = {}
    for place, entry in enumerate(config.models or ()):
        if entry.id in seen:
            read.refuse(("models", place, "id"), f"{entry.id} is also the id of models[{seen[entry.id]}]; rename one")
        seen[entry.id] = place


def _check_cases(read: ReadConfig) -> None:
    config = read.config
    if config.explicit_cases is None:
        missing = next((name for name in SIZE_KEYS if getattr(config, name) is None), None)
        if missing is not None:
            read.refuse((missing,), "missing; give it, or explicit_cases")
        return
    for place, case in enumerate(config.explicit_cases):
        _check_context(read, ("explicit_cases", place, "context_size"), [case])


def check_product(read: ReadConfig, cases: Iterable[MatrixCase]) -> None:
    """Refuse a product in which a context is smaller than what has to be in it.

    Raises:
        DataError: names the first such context.
    """
    if read.config.explicit_cases is None:
        _check_context(read, ("context_sizes",), cases)


def _check_context(read: ReadConfig, where: YamlPath, cases: Iterable[MatrixCase | ExplicitCase]) -> None:
    for case in cases:
        needed = case.prompt_tokens + case.generated_tokens
        if case.context_size < needed:
            what = (
                f"a context of {case.context_size} tokens does not hold {case.prompt_tokens} of the prompt and "
                f"{case.generated_tokens} generated; give at least {needed}"
            )
            read.refuse(where, what)


def _check_variants(read: ReadConfig) -> None:
    variants = read.config.kv_cache_variants
    for place, variant in enumerate(variants):
        if variant in variants[:place]:
            words = f"{variant.key}/{variant.value}"
            read.refuse(("kv_cache_variants", place), f"{words} stands twice; take one out")


def _with_line(reason: str, path: Path, source: YamlFile) -> DataError:
    """A decoder's complaint, with the line of the field that it is about."""
    bare = refusal(reason, MatrixConfig, file=str(path))
    where = path_of(bare.field or "")
    return refusal(reason, MatrixConfig, file=str(path), line=source.line_of(where))


def path_of(field: str) -> YamlPath:
    """`models[0].path` as keys and places."""
    found = _PART.finditer(field)
    return tuple(match["name"] if match["place"] is None else int(match["place"]) for match in found)


def _complaint(path: Path, source: YamlFile, where: YamlPath, what: str) -> DataError:
    line = source.line_of(where)
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
    return DataError(f"line {line}: {field}: {what}", file=str(path), line=line, field=field)


def plain_cases(config: MatrixConfig) -> list[dict[str, Any]]:
    """The fields of every case but its KV types, in order; explicit cases replace the product of the lists."""
    if config.explicit_cases is not None:
        return [msgspec.to_builtins(case) for case in config.explicit_cases]
    assert config.threads is not None, "a configuration without explicit cases has lists"
    return [
        {
            "threads": threads,
            "prompt_tokens": prompt,
            "generated_tokens": generated,
            "batch_size": batch,
            "context_size": context,
            "ubatch_size": micro_batch,
        }
        for threads in config.threads
        for prompt in config.prompt_tokens or ()
        for generated in config.generated_tokens or ()
        for batch in config.batch_sizes or ()
        for context in config.context_sizes or ()
        for micro_batch in config.ubatch_sizes
    ]
