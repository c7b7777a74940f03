"""One child process, measured: how long it took, what it wrote, how much memory it had, how it ended.

Nothing that a child does is an exception here: an exit status, a time-out and a program that cannot be started are all
values, so that whoever records invocations records these too. An interrupt ends the child first.

Peak memory is what the kernel kept for the child (`wait4`). The kernel counts from the fork on, when the child is still
a copy of us, so a figure that is not above our own peak says nothing about the child and is left out.
"""

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final, NamedTuple

from arriero.lab.scratch import scratch_file

GRACE_S: Final = 5.0
"""How long a child may take to end after it was asked to."""

_SLICE_S: Final = 0.1
"""How often an interrupt by another thread is looked for."""


class CpuUsage(NamedTuple):
    """CPU time of a child and of the children that it waited for."""

    user_s: float
    system_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A child that has ended.

    Attributes:
        command: program and arguments as they were started.
        return_code: exit status, negative for a signal; None if it could not be started.
        stdout: what it wrote, as far as it came.
        stderr: same.
        elapsed_s: from before the start to the end, monotonic clock.
        timed_out: it was ended by us because its time was over.
        interrupted: it was ended by us because somebody asked for it.
        peak_rss_kib: the most memory that it had; None where that cannot be told.
        launch_error: why it could not be started.
        usage: None if it could not be started.
    """

    command: tuple[str, ...]
    return_code: int | None
    stdout: str
    stderr: str
    elapsed_s: float
    timed_out: bool
    interrupted: bool
    peak_rss_kib: int | None
    launch_error: str | None
    usage: CpuUsage | None


class _Ended(NamedTuple):
    """What the kernel says of a child that has ended."""

    return_code: int
    peak_rss_kib: int
    usage: CpuUsage
    timed_out: bool
    interrupted: bool


def run_process(
    command: Sequence[str],
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    cpus: Sequence[int] | None = None,
    interrupt: threading.Event | None = None,
    grace_s: float = GRACE_S,
) -> Finished:
    """Run a program to its end; never through a shell.

    Args:
        command: program and arguments.
        timeout_s: after which it is asked to end, and killed `grace_s` later; so is whatever it has started.
        environment: variables on top of our own.
        cpus: the only CPUs that it may run on; None leaves it ours.
        interrupt: another thread sets it to end the child early.
        grace_s: how long a child may take to end after it was asked to.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C; the child has ended before.
        ConfigError: there is no place for what it would write; nothing was started.
    """
    words = tuple(command)
    own_peak = peak_rss_kib()
    began_at = time.monotonic()
    with scratch_file() as out, scratch_file() as err:
        try:
            child = _start(words, out, err, environment, cpus)
        except (OSError, ValueError, IndexError) as error:  # the last two: a zero byte, and no word at all
            return _not_started(words, error, time.monotonic() - began_at)
        ended = _wait(child, began_at + timeout_s, interrupt or threading.Event(), grace_s)
        elapsed = time.monotonic() - began_at
        return Finished(
            command=words,
            return_code=ended.return_code,
            stdout=_text(out),
            stderr=_text(err),
            elapsed_s=elapsed,
            timed_out=ended.timed_out,
            interrupted=ended.interrupted,
            peak_rss_kib=ended.peak_rss_kib if own_peak is not None and ended.peak_rss_kib > own_peak else None,
            launch_error=None,
            usage=ended.usage,
        )


def peak_rss_kib(pid: int | None = None) -> int | None:
    """The most memory that a running process has had, by default this one; None where the system does not tell."""
    try:
        with open(f"/proc/{'self' if pid is None else pid}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - no path
            found = (line.split()[1] for line in file if line.startswith("VmHWM:"))
            return int(next(found, "")) or None
    except (OSError, ValueError):
        return None


def _start(
    command: tuple[str, ...],
    out: IO[bytes],
    err: IO[bytes],
    environment: Mapping[str, str] | None,
    cpus: Sequence[int] | None,
) -> "subprocess.Popen[bytes]":
    """A child in a session of its own, so that Ctrl-C reaches us alone and we can end all that it starts."""
    with _on_cpus(cpus):
        return subprocess.Popen(  # noqa: S603 - the caller's own program, and no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )


@contextlib.contextmanager
def _on_cpus(cpus: Sequence[int] | None) -> Generator[None]:
    """Let what this thread starts meanwhile run on these CPUs only: a child inherits them before its first thread."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _wait(child: "subprocess.Popen[bytes]", until: float, interrupt: threading.Event, grace_s: float) -> _Ended:
    watched = os.pidfd_open(child.pid)
    timed_out = interrupted = False
    try:
        while not _has_ended(watched, min(_SLICE_S, max(0.0, until - time.monotonic()))):
            timed_out, interrupted = time.monotonic() >= until, interrupt.is_set()
            if timed_out or interrupted:
                _end(child.pid, watched, grace_s)
                break
        return _reap(child, timed_out=timed_out, interrupted=interrupted)
    except BaseException:  # Ctrl-C above all: nothing of ours may go on computing
        _end(child.pid, watched, grace_s)
        _reap(child, timed_out=False, interrupted=True)
        raise
    finally:
        os.close(watched)


def _has_ended(watched: int, seconds: float) -> bool:
    return bool(select.select([watched], [], [], seconds)[0])


def _end(group: int, watched: int, grace_s: float) -> None:
    """Ask, and after a while do not ask."""
    for word in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, word)
        if _has_ended(watched, grace_s):
            break
    with contextlib.suppress(ProcessLookupError):  # what the child has started and not ended
        os.killpg(group, signal.SIGKILL)


def _reap(child: "subprocess.Popen[bytes]", *, timed_out: bool, interrupted: bool) -> _Ended:
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait for it again
    return _Ended(
        return_code=child.returncode,
        peak_rss_kib=usage.ru_maxrss,
        usage=CpuUsage(usage.ru_utime, usage.ru_stime),
        timed_out=timed_out,
        interrupted=interrupted,
    )


def _not_started(command: tuple[str, ...], error: Exception, elapsed: float) -> Finished:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Finished(
        command=command,
        return_code=None,
        stdout="",
        stderr="",
        elapsed_s=elapsed,
        timed_out=False,
        interrupted=False,
        peak_rss_kib=None,
        launch_error=f"{command[0] if command else 'no program'}: {reason.lower()}",
        usage=None,
    )


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
