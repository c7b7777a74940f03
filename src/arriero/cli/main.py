"""`arriero COMMAND ...`: finds the command and imports nothing else.

Status 0: done. 1: it failed. 2: something given to it cannot work; one line says what and how to mend it.
"""

import argparse
import difflib
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

from arriero import __version__
from arriero.cli.sources import LineParser
from arriero.core.errors import ArrieroError, CallerError, ConfigError, DataError

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_MISUSE: Final = 2
EXIT_INTERRUPTED: Final = 130  # what shells expect after Ctrl-C
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class Command(NamedTuple):
    """One word after `arriero`."""

    name: str
    module: str  # has `main(arguments) -> int`
    says: str


COMMANDS: Final = (
    Command("serve", "arriero.cli.serve", "serve a model over HTTP"),
    Command("generate", "arriero.cli.generate", "answer one prompt in the terminal"),
    Command("gate", "arriero.cli.gate", "check the engine's promises on a real model"),
    Command("calibrate", "arriero.cli.calibrate", "measure what steps cost on this machine, and write a profile"),
    Command("sim", "arriero.cli.simulate", "simulate the scheduler in virtual time, and the published simulators"),
    Command("explain", "arriero.cli.explain", "say where the time of each request of a journal went"),
    Command("plan", "arriero.cli.plan", "say which rate this machine sustains under objectives, and how to serve it"),
    Command("bench", "arriero.cli.bench.main", "measure servers, compare them, and run the published experiments"),
    Command("lab", "arriero.cli.lab.main", "profile llama.cpp on this CPU, and tell whether a change really helped"),
    Command("model", "arriero.cli.model", "show model files, and make other weight formats"),
    Command("workload", "arriero.cli.workload", "make, check, describe and import workloads"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = _status(words)
        sys.stdout.flush()  # here, where a full disk can still be told
    except BrokenPipeError:
        _drop_output()  # whoever read us has gone
        return EXIT_FAILED
    except OSError as error:
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        _drop_output()
        return _complain(ConfigError(f"the output cannot be written ({(error.strerror or '').lower()}); make room"))
    return status


def _status(words: list[str]) -> int:
    try:
        return _dispatch(words)
    except ArrieroError as error:
        return _complain(error)
    except SystemExit as stop:  # after --help and --version
        return int(stop.code or EXIT_OK)
    except KeyboardInterrupt:
        print("arriero: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _drop_output() -> None:
    """Let nothing more be written; without this the interpreter complains again when it flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: ArrieroError) -> int:
    place = f"{error.file}: " if isinstance(error, DataError) and error.file is not None else ""
    print(f"arriero: {place}{error}", file=sys.stderr)
    return EXIT_MISUSE if isinstance(error, ConfigError | CallerError | DataError) else EXIT_FAILED


def _dispatch(words: list[str]) -> int:
    if words and not words[0].startswith("-"):
        command = _command(words[0])
        status: int = import_module(command.module).main(words[1:])
        return status
    _root_parser().parse_args(words)
    raise ConfigError("no command given; see arriero --help")


def _command(name: str) -> Command:
    for command in COMMANDS:
        if command.name == name:
            return command
    names = [command.name for command in COMMANDS]
    close = difflib.get_close_matches(name, names, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"use {', '.join(names[:-1])} or {names[-1]}"
    raise ConfigError(f"{name}: no such command; {remedy}")


def _root_parser() -> LineParser:
    width = max(len(command.name) for command in COMMANDS)
    parser = LineParser(
        prog="arriero",
        usage="arriero [--help | --version | COMMAND ...]",
        description="Continuous batching you can watch, measure and replay, on llama.cpp.",
        epilog="\n".join([
            "commands:",
            *(f"  {command.name:<{width}}  {command.says}" for command in COMMANDS),
            "",
            "`arriero COMMAND --help` tells the rest.",
        ]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"arriero {__version__}")
    return parser
