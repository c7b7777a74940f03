"""Flags that `lab perf stat`, `record` and `callgrind` share, and the targets that they ask for."""

from argparse import Namespace
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arriero.cli.lab.flag_values import flag_value
from arriero.cli.machine import available_cores
from arriero.cli.sources import LineParser, make_parser
from arriero.core.choices import FlashAttention
from arriero.core.errors import ConfigError
from arriero.core.option_kinds import Numbers, Real, Whole

if TYPE_CHECKING:
    from arriero.lab.perf.target import Target
    from arriero.record.cpu_lab.worker import WorkerOptions

MODEL: Final = "smollm2-135m"
_KV: Final = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_QUICK: Final = {"prompt": "64", "generate": "8"}


def split_command(arguments: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Flags, and the program after `--`."""
    words = list(arguments)
    if "--" not in words:
        return words, ()
    place = words.index("--")
    return words[:place], tuple(words[place + 1 :])


def run_parser(mode: str, says: str, *, repetitions: int, threads: int | None = None) -> LineParser:
    """A parser with all that a run takes.

    Args:
        mode: the word after `lab perf`.
        says: what it does.
        repetitions: default.
        threads: default; None takes every core.
    """
    parser = make_parser(f"lab perf {mode}", f"{says} Words after -- are a program to profile instead of the worker.")
    where = parser.add_argument_group("run")
    where.add_argument("--out", metavar="FOLDER", default=f".artifacts/lab/perf-{mode}", help="(default: %(default)s)")
    where.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    where.add_argument("--retry-failures", action="store_true", help="with --resume: run what has no success again")
    where.add_argument("--repair", action="store_true", help="with --resume: set a cut off last line aside")
    where.add_argument("--force", action="store_true", help="with --resume: go on although the settings differ")
    where.add_argument("--repetitions", metavar="N", default=str(repetitions), help="(default: %(default)s)")
    where.add_argument("--warmups", metavar="N", default="1", help="without the tool, before them (default: 1)")
    where.add_argument("--timeout", metavar="S", default="1800", help="of each invocation (default: %(default)s)")
    where.add_argument("--cpus", metavar="LIST", help="CPUs that the program may use, such as 0,1 (default: all)")
    where.add_argument("--quick", action="store_true", help="one repetition of a short shape, no warm-up")
    where.add_argument("--busy-ok", action="store_true", help="profile beside busy processes")
    where.add_argument("--json", action="store_true", help="print the figures as JSON")
    _add_worker_flags(parser, str(threads or available_cores()))
    return parser


def _add_worker_flags(parser: LineParser, threads: str) -> None:
    what = parser.add_argument_group("worker")
    what.add_argument("--model", metavar="REF", action="append", help=f"a file or reference, repeatable ({MODEL})")
    what.add_argument("--threads", metavar="LIST", default=threads, help="(default: %(default)s)")
    what.add_argument("--prompt", metavar="LIST", default="512", help="prompt tokens (default: %(default)s)")
    what.add_argument("--generate", metavar="LIST", default="64", help="tokens after it (default: %(default)s)")
    what.add_argument("--depth", metavar="N", default="0", help="tokens in KV before (default: 0)")
    what.add_argument("--batch", metavar="N", default="2048", help="rows of a decode call (default: %(default)s)")
    what.add_argument("--micro-batch", metavar="N", default="512", help="rows at once (default: %(default)s)")
    what.add_argument("--kv-key", choices=_KV, default="f16", help="type of keys (default: f16)")
    what.add_argument("--kv-value", choices=_KV, default="f16", help="type of values (default: f16)")
    what.add_argument("--flash-attn", dest="flash_attention", choices=[each.value for each in FlashAttention],
                      default="auto", help="fused attention (default: auto)")  # fmt: skip
    what.add_argument("--library", metavar="FOLDER", help="of another build of llama.cpp (default: the binding's own)")


def whole(flags: Namespace, name: str, minimum: int = 0) -> int:
    """A flag that is a whole number.

    Raises:
        ConfigError: it is none, or too low.
    """
    return flag_value(_flag(name), str(getattr(flags, name)), Whole(minimum))


def numbers(flags: Namespace, name: str, minimum: int = 1) -> tuple[int, ...]:
    """A flag that is a list of whole numbers, each once, in their order.

    Raises:
        ConfigError: it is none.
    """
    text = _QUICK[name] if flags.quick and name in _QUICK else str(getattr(flags, name))
    return tuple(dict.fromkeys(flag_value(_flag(name), text, Numbers(minimum))))


def seconds(flags: Namespace, name: str) -> float:
    """A flag that is a time.

    Raises:
        ConfigError: it is none.
    """
    return flag_value(_flag(name), str(getattr(flags, name)), Real(0.1))


def cpus_of(flags: Namespace) -> tuple[int, ...] | None:
    """The CPUs that programs may run on; None leaves them ours.

    The kernel drops those that are not there without a word, so a record would name CPUs that nothing ran on.

    Raises:
        ConfigError: no list of numbers, or this process may not use one of them.
    """
    from arriero.record.machine import usable_cpus

    if flags.cpus is None:
        return None
    wanted, usable = numbers(flags, "cpus", 0), usable_cpus()
    strange = [str(cpu) for cpu in wanted if cpu not in usable]
    if strange:
        ours = ",".join(map(str, usable))
        raise ConfigError(f"--cpus {flags.cpus}: this process may not run on {', '.join(strange)}; it may use {ours}")
    return wanted


def targets_of(flags: Namespace, command: tuple[str, ...], library: Path | None) -> "tuple[Target, ...]":
    """The program after `--`, or every model with every shape.

    Raises:
        ConfigError: both are given, a flag is no number, or a model cannot be read.
    """
    from arriero.backend.models import resolve_model
    from arriero.lab.perf.plan import repeated
    from arriero.lab.perf.target import command_target, worker_target

    if command:
        if flags.model:
            raise ConfigError("--model: the program after -- is profiled as it is; leave one of them out")
        return (command_target(command, library=library),)
    paths = [resolve_model(reference) for reference in flags.model or (MODEL,)]
    targets = tuple(worker_target(options, path, library=library) for options in _shapes(flags) for path in paths)
    again = repeated(targets)
    if again is not None:
        raise ConfigError(f"--model: {again.partition(':')[0]} is given twice; files need names of their own")
    return targets


def _shapes(flags: Namespace) -> "list[WorkerOptions]":
    from arriero.record.cpu_lab.worker import KvCacheType, WorkerOptions

    shapes = product(numbers(flags, "prompt", 0), numbers(flags, "generate", 0), numbers(flags, "threads"))
    options = [
        WorkerOptions(
            model=MODEL,  # each target names its own
            threads=threads,
            prompt_tokens=prompt,
            generated_tokens=generated,
            depth=whole(flags, "depth"),
            batch=whole(flags, "batch", 1),
            micro_batch=whole(flags, "micro_batch", 1),
            kv_key=KvCacheType(flags.kv_key),
            kv_value=KvCacheType(flags.kv_value),
            flash_attention=FlashAttention(flags.flash_attention),
            warmups=0,  # whatever the worker does is counted
        )
        for prompt, generated, threads in shapes
    ]
    if any(not each.prompt_tokens + each.generated_tokens for each in options):
        raise ConfigError("--prompt 0 --generate 0: nothing would be computed; give one of them")
    return options


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
