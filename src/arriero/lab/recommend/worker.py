"""One measurement in a process of its own; whatever becomes of it is a value."""

import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from arriero.core.errors import DataError
from arriero.lab.process import Finished, run_process
from arriero.lab.worker_process import decode_result, worker_command
from arriero.record.cpu_lab.run_log import Status
from arriero.record.cpu_lab.worker import WorkerOptions, WorkerResult

TIMEOUT_S: Final = 600.0
_SHOWN: Final = 300


class Measured(NamedTuple):
    """What a worker came to."""

    status: Status
    elapsed_s: float
    result: WorkerResult | None
    problem: str | None  # why there is no result


Worker: TypeAlias = Callable[[WorkerOptions], Measured]
"""Measures one setting."""


def worker_process(timeout_s: float = TIMEOUT_S) -> Worker:
    """A worker that starts `arriero.lab.bench_worker`, and ends it after so long."""

    def measure(options: WorkerOptions) -> Measured:
        began_at = time.monotonic()
        finished = run_process(worker_command(options), timeout_s=timeout_s)
        return measured(finished, time.monotonic() - began_at)

    return measure


def measured(finished: Finished, elapsed_s: float) -> Measured:
    """How a process is to be read."""
    if finished.timed_out:
        return Measured(Status.TIMED_OUT, elapsed_s, None, "took too long and was ended")
    if finished.launch_error is not None or finished.return_code != 0:
        said = (finished.launch_error or finished.stderr.strip().rpartition("\n")[2])[:_SHOWN]
        return Measured(Status.FAILED, elapsed_s, None, said or f"ended with status {finished.return_code}")
    try:
        result = decode_result(finished.stdout)
    except DataError as error:
        return Measured(Status.PARSE_ERROR, elapsed_s, None, str(error)[:_SHOWN])
    return Measured(Status.SUCCESS, elapsed_s, result, None)
