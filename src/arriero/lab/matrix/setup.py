"""From a configuration and what the command line says besides to a plan that can run, or that can be shown."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from arriero.core.errors import ConfigError
from arriero.lab.machine.model_file import model_facts
from arriero.lab.matrix.cases import matrix_cases
from arriero.lab.matrix.config import MatrixConfig, ReadConfig
from arriero.lab.matrix.executors import Executor, Settings
from arriero.lab.matrix.in_process import InProcess
from arriero.lab.matrix.llama_bench import Dialect, LlamaBench, find_llama_bench
from arriero.lab.matrix.matrix_model import MatrixModel
from arriero.lab.matrix.models import Facts, matrix_models, planned_models
from arriero.lab.matrix.plan import MatrixPlan
from arriero.lab.matrix.records import words_to_show
from arriero.lab.matrix.smoke import read_fixture
from arriero.record.cpu_lab.environment import LabEnvironment, environment_fingerprint
from arriero.record.cpu_lab.matrix import ExecutorKind, MatrixCase

PROGRAM: Final = "llama-bench"
NEWEST: Final = Dialect(load_mode=True, attention_words=True, devices=True)


class Choice(NamedTuple):
    """What the command line says besides.

    Attributes:
        executor: who measures; None leaves it to the configuration.
        llama_bench: path or name of the program; None leaves it to the configuration.
        quick: a short variant that shows that all works.
    """

    executor: ExecutorKind | None = None
    llama_bench: str | None = None
    quick: bool = False

    @property
    def kind(self) -> ExecutorKind | None:
        """Who measures; naming the program asks for it.

        Raises:
            ConfigError: the program is named, and another executor is asked for.
        """
        if self.llama_bench is None:
            return self.executor
        if self.executor in {None, ExecutorKind.LLAMA_BENCH}:
            return ExecutorKind.LLAMA_BENCH
        raise ConfigError(f"--llama-bench: excludes --executor {self.executor}; leave out one of them")


def make_plan(
    read: ReadConfig, choice: Choice, environment: LabEnvironment, *, facts: Facts = model_facts
) -> MatrixPlan:
    """Find and hash everything that the run needs.

    Raises:
        DataError: the configuration states what is not so. ConfigError: the executor cannot be had.
    """
    cases = matrix_cases(read)
    executor = _executor(read, choice, environment)
    return _plan(read, choice, cases, matrix_models(read, facts), executor)


def planned_lines(read: ReadConfig, choice: Choice) -> Iterator[str]:
    """What a run would do, without looking at any file: the counts, then a command for each model and case."""
    cases = matrix_cases(read)
    executor = _shown_executor(read, choice)
    models = tuple(
        MatrixModel(each.entry.id, each.path, each.entry.quantization, "", 0) for each in planned_models(read)
    )
    plan = _plan(read, choice, cases, models, executor)
    groups = len(models) * len(plan.cases)
    yield (
        f"{len(models)} models x {len(plan.cases)} cases = {groups} groups: "
        f"{groups * plan.repetitions} measured invocations and {groups * plan.warmup_runs} warm-ups by {executor.kind}"
    )
    paths = {model.model_id: model.path for model in models}
    shown = set[tuple[str, MatrixCase]]()
    for each in plan.invocations():
        if (each.model_id, each.case) not in shown:
            shown.add((each.model_id, each.case))
            yield f"{each.model_id}:{each.case.case_id}"
            yield f"    {_quoted(words_to_show(plan, paths[each.model_id], each))}"


def environment_for(environment: LabEnvironment, kind: ExecutorKind) -> LabEnvironment:
    """The environment as it is true of an executor: only workers run on the binding's own llama.cpp."""
    if kind is ExecutorKind.IN_PROCESS:
        return environment
    return msgspec.structs.replace(
        environment,
        library=None,
        fingerprint=environment_fingerprint(environment.machine, environment.isa, None),
        reasons={**environment.reasons, "library": f"{kind} does not use the binding's; see the record's library"},
    )


def _plan(
    read: ReadConfig,
    choice: Choice,
    cases: Sequence[MatrixCase],
    models: tuple[MatrixModel, ...],
    executor: Executor,
) -> MatrixPlan:
    config = read.config
    return MatrixPlan(
        models=models,
        cases=quick_cases(cases) if choice.quick else tuple(cases),
        warmup_runs=0 if choice.quick else config.warmup_runs,
        repetitions=1 if choice.quick else config.repetitions,
        timeout_s=config.timeout_seconds,
        settings=_settings(config),
        executor=executor,
        time_program=_time_program(read),
    )


def quick_cases(cases: Sequence[MatrixCase]) -> tuple[MatrixCase, ...]:
    """Of each pair of KV types the case with the smallest context; the first of equals."""
    found: dict[tuple[str, str], MatrixCase] = {}
    for case in sorted(cases, key=lambda case: (case.context_size, case.prompt_tokens + case.generated_tokens)):
        found.setdefault((case.kv_key_type, case.kv_value_type), case)
    return tuple(case for case in cases if case in found.values())


def _settings(config: MatrixConfig) -> Settings:
    return Settings(mmap=config.mmap, cpu_only=config.cpu_only, flash_attention=config.flash_attention)


def _executor(read: ReadConfig, choice: Choice, environment: LabEnvironment) -> Executor:
    kind = choice.kind or read.config.executor
    if kind is ExecutorKind.LLAMA_BENCH:
        return find_llama_bench(_program_place(read, choice), _settings(read.config))
    if kind is ExecutorKind.SMOKE:
        return _smoke(read)
    if environment.library is None:
        raise ConfigError(f"--executor in-process: {environment.reasons.get('library', 'no llama.cpp')}")
    return InProcess(settings=_settings(read.config), library=environment.library.hashes)


def _shown_executor(read: ReadConfig, choice: Choice) -> Executor:
    """As `_executor`, but what is missing is shown as it would be."""
    kind = choice.kind or read.config.executor
    settings = _settings(read.config)
    if kind is ExecutorKind.SMOKE:
        return _smoke(read)
    if kind is ExecutorKind.IN_PROCESS:
        return InProcess(settings=settings, library={})
    place = _program_place(read, choice)
    try:
        return find_llama_bench(place, settings)
    except ConfigError:
        nothing: Mapping[str, str] = {}
        return LlamaBench(program=Path(place), settings=settings, dialect=NEWEST, library=nothing)


def _smoke(read: ReadConfig) -> Executor:
    if read.config.smoke_fixture is None:
        raise ConfigError("--executor smoke: the configuration names no smoke_fixture; add one")
    return read_fixture(read.resolve(read.config.smoke_fixture))


def _program_place(read: ReadConfig, choice: Choice) -> str:
    """The flag's word; else the configuration's, which counts from its folder unless it is found in `PATH` only."""
    if choice.llama_bench is not None:
        return choice.llama_bench
    word = read.config.executable or PROGRAM
    near = read.resolve(word)
    if near.exists():  # in full: a bare word would be looked for in `PATH`, where another program may have it
        return str(near.absolute())
    return str(near) if "/" in word else word


def _time_program(read: ReadConfig) -> Path | None:
    if not read.config.measure_memory:
        return None
    path = read.resolve(read.config.time_executable)
    if not path.is_file():
        read.refuse(
            ("time_executable",), f"{path}: there is no such program; install GNU time, or measure_memory: false"
        )
    return path


def _quoted(words: Sequence[str]) -> str:
    """As a person would paste it into a shell; nothing here is run by one."""
    return shlex.join(words)
