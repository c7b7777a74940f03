"""The bench worker seen from outside: the words that start it, and the line that it answers.

Who only starts workers loads neither the binding nor numpy, so that its own memory stays below theirs.
"""

import sys
from typing import Final

import msgspec

from arriero.core.errors import DataError
from arriero.record.cpu_lab.worker import WorkerOptions, WorkerResult

MODULE: Final = "arriero.lab.bench_worker"
LARGEST_SIZE: Final = 2**31 - 1
"""Of threads and tokens: llama.cpp counts in 32 bits, and would take what is left of a larger number."""


def worker_command(options: WorkerOptions, python: str = sys.executable) -> tuple[str, ...]:
    """The words that start a worker."""
    return (python, "-m", MODULE, msgspec.json.encode(options).decode())


def decode_result(stdout: str) -> WorkerResult:
    """The result in a worker's standard output, which is one line.

    Raises:
        DataError: it is not.
    """
    lines = stdout.splitlines()
    if len(lines) != 1:
        raise DataError(f"the worker wrote {len(lines)} lines instead of one")
    try:
        return msgspec.json.decode(lines[0], type=WorkerResult)
    except msgspec.DecodeError as error:  # a validation error is one
        raise DataError(f"the worker's line is not understood ({error})") from None
