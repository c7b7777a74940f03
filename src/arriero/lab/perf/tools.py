"""The programs that profiling needs, found once, and asked in one language: perf, valgrind, objdump."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from arriero.core.errors import ConfigError
from arriero.lab.process import Finished, run_process

PLAIN: Final[Mapping[str, str]] = MappingProxyType({"LC_ALL": "C", "DEBUGINFOD_URLS": ""})
"""Decimal points and English words in what tools write, and no questions to servers about symbols."""

_PARANOID: Final = Path("/proc/sys/kernel/perf_event_paranoid")
_PATIENCE_S: Final = 20.0
_VERSION: Final = re.compile(r"\d+\.\d[\w.+-]*")
DENIED: Final = re.compile(
    r"permission|not permitted|perf_event_paranoid|EACCES|EPERM|no access|access to performance", re.IGNORECASE
)
"""Words of a kernel, or of perf in its name, that refuses."""

_REMEDIES: Final = MappingProxyType({
    "perf": "install linux-perf (Debian) or linux-tools for the running kernel, or use `arriero lab perf callgrind`",
    "valgrind": "install valgrind",
    "objdump": "install binutils",
})


@dataclass(frozen=True, slots=True)
class Tool:
    """One program.

    Attributes:
        name: what it is.
        path: where it is.
        version: as it says it; a word without spaces.
    """

    name: str
    path: str
    version: str

    @property
    def words(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"


def find_tool(name: str, program: str | None = None) -> Tool:
    """The program, and its version.

    Args:
        name: perf, valgrind or objdump.
        program: a name or path to take instead.

    Raises:
        ConfigError: it is not there or does not start.
    """
    wanted = program or name
    path = shutil.which(wanted)
    if path is None:
        raise ConfigError(f"{wanted}: no such program; {_REMEDIES[name]}")
    asked = run_process((path, "--version"), timeout_s=_PATIENCE_S, environment=PLAIN)
    version = _VERSION.search(asked.stdout or asked.stderr)
    if asked.return_code != 0 or version is None:
        raise ConfigError(f"{wanted} --version: {first_line(asked)}; {_REMEDIES[name]}")
    return Tool(name, path, version[0])


def perf_event_paranoid(path: Path = _PARANOID) -> int | None:
    """What the kernel lets those without privileges count: 2 is only themselves, 3 nothing; None if it is not told."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def privileges_remedy(complaint: str) -> str | None:
    """What to do where the kernel refuses; None if the words say something else."""
    if not DENIED.search(complaint):
        return None
    return (
        "the kernel refuses: lower kernel.perf_event_paranoid or give the container CAP_PERFMON, see "
        "docs/lab/profiling-setup.md; `arriero lab perf callgrind` needs neither"
    )


def ask(command: Sequence[str], *, timeout_s: float) -> str:
    """What a tool that only reads writes.

    Raises:
        ConfigError: it fails; carries its first line.
    """
    done = run_process(command, timeout_s=timeout_s, environment=PLAIN)
    if done.return_code != 0 or done.timed_out:
        name = os.path.basename(command[0])  # noqa: PTH119 - a word, not a file
        raise ConfigError(f"{name}: {first_line(done)}")
    return done.stdout


def first_line(done: Finished) -> str:
    """Why a tool has failed, in its own words if it has any."""
    if done.launch_error is not None:
        return done.launch_error
    if done.timed_out:
        return f"took longer than {done.elapsed_s:.0f} s and was ended"
    words = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return words[0] if words else f"ended with status {done.return_code} and said nothing"
