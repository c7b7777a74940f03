"""What is profiled: the bench worker with one setting and one model, or a program of the caller's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from arriero.lab.machine.model_file import model_facts
from arriero.lab.perf.library_folder import VARIABLE
from arriero.lab.worker_process import worker_command
from arriero.record.cpu_lab.perf import PerfCase, TargetModel
from arriero.record.cpu_lab.worker import WorkerOptions
from arriero.record.provenance import portable_command

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A program to profile.

    Attributes:
        case: how it is recorded.
        command: the words that start it.
        environment: variables on top of ours.
    """

    case: PerfCase
    command: tuple[str, ...]
    environment: Mapping[str, str]


def worker_target(options: WorkerOptions, path: Path, *, library: Path | None = None) -> Target:
    """The bench worker with one setting.

    Args:
        options: all but the model.
        path: the model's file.
        library: folder of the llama.cpp to use; None leaves it to the environment.

    Raises:
        ModelUnreadable: the file is no model.
    """
    facts = model_facts(path)
    asked = msgspec.structs.replace(options, model=str(path))
    runs = options.repetitions
    # with a depth the worker also fills the context, and that it does so once is its own business
    num_tokens = runs * (options.prompt_tokens + options.generated_tokens) if not options.depth else None
    return Target(
        case=PerfCase(
            target=facts.file,
            model=TargetModel(name=facts.file, bytes=facts.bytes, sha256=facts.sha256),
            workload=workload_word(options),
            num_tokens=num_tokens,
        ),
        command=worker_command(asked),
        environment=_NOTHING if library is None else {VARIABLE: str(library.resolve())},
    )


def command_target(command: Sequence[str], *, library: Path | None = None) -> Target:
    """A program of the caller's own; its number of tokens is not known."""
    words = portable_words(command)
    return Target(
        case=PerfCase(target=words[0], model=None, workload=" ".join(words), num_tokens=None),
        command=tuple(command),
        environment=_NOTHING if library is None else {VARIABLE: str(library.resolve())},
    )


def workload_word(options: WorkerOptions) -> str:
    """Every setting but the model, in one word; those that are as usual are said by their letters too."""
    threads = f"t{options.threads}" + ("" if options.batch_threads is None else f"/{options.batch_threads}")
    words = [
        f"p{options.prompt_tokens}",
        f"n{options.generated_tokens}",
        threads,
        f"d{options.depth}",
        f"b{options.batch}",
        f"ub{options.micro_batch}",
        f"kv-{options.kv_key}-{options.kv_value}",
        f"fa-{options.flash_attention}",
        f"mmap{int(options.mmap)}",
        f"r{options.repetitions}",
        f"w{options.warmups}",
    ]
    return "-".join(words)


def portable_words(command: Sequence[str]) -> tuple[str, ...]:
    """A command without absolute paths, also inside of what a worker is told."""
    return tuple(portable_command([_portable(word) for word in command]))


def _portable(word: str) -> str:
    if not word.startswith("{"):
        return word
    try:
        options = msgspec.json.decode(word.encode(), type=WorkerOptions)
    except msgspec.DecodeError:
        return word
    return msgspec.json.encode(msgspec.structs.replace(options, model=Path(options.model).name)).decode()
